"""One search in a process of its own: ``python -m hpo.benchmarks.search_run SEARCH_JSON``.

It goes the way of ``foxtune tune`` up to the last settled trial; the report is not written.
"""

from __future__ import annotations

import json
import sys

from hpo.config import SearchConfig
from hpo.tuner import tune
from trainer.config import Choice, Float, SearchSpace, validated

SPACE = SearchSpace(  # no shape is searched, as in the space that foxtune takes unasked
    "scalars",
    (
        Float("iql_expectile_tau", 0.5, 0.95),
        Float("iql_advantage_temperature", 1.0, 30.0, log=True),
        Float("her_ratio", 0.0, 0.8, step=0.1),
        Choice("her_strategy", ("final", "future", "episode", "random")),
    ),
)


def main() -> int:
    """Searches and prints how it ended."""
    outcome = tune(validated(SearchConfig, json.loads(sys.argv[1])), SPACE, say=_say)
    _say(outcome.message)
    return outcome.exit_code


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
