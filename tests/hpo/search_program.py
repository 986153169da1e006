"""A driver in a process of its own, for the tests that end it: runs or resumes a search of stub trials.

python search_program.py {tune|resume} SEARCH_AS_JSON TRAINING [HEAD_SECONDS]
"""

from __future__ import annotations

import sys

from fake_training import FakeMarket

from hpo.config import SearchConfig
from hpo.tuner import resume, tune
from search_spaces import packaged
from trainer.errors import FoxtuneError


def main(command: str, text: str, training: str, head_seconds: float | None) -> int:
    search = SearchConfig.model_validate_json(text)
    if head_seconds is not None:
        from hpo.cluster import cluster_watch

        cluster_watch.HEAD_SECONDS = head_seconds
    training = f"fake_training:{training}"
    try:
        if command == "tune":
            outcome = tune(search, packaged()[search.space], market=FakeMarket(), training=training)
        else:
            outcome = resume(search, market=FakeMarket(), training=training)
    except FoxtuneError as error:
        sys.stdout.write(f"foxtune: error: {error}\n")
        return 2
    sys.stdout.write(f"{outcome.message}\n")
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4], float(sys.argv[4]) if len(sys.argv) > 4 else None))
