"""StudySearcher: Ray Tune asks it for configurations, and it asks the study."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.tune.search import Searcher

from hpo.config import SearchConfig
from hpo.ledger import StudyLedger
from hpo.study.run_directory import RunDirectory
from hpo.trial.trainable import ASSIGNMENT, Assignment


class StudySearcher(Searcher):
    """Hands out trials of the study, at most ``concurrent`` at a time.

    Ray's own OptunaSearch leaves a NaN trial RUNNING, calls a stopped trial COMPLETE and sets no pruner;
    here every state is written by :class:`hpo.ledger.StudyLedger`.

    Args:
        ledger: The study's writer.
        search: Gives concurrency and resources.
        directory: Trial folders.
        concurrent: Trials at a time, as the machine allows.
        stopping: Whether the search ends now.
    """

    def __init__(
        self,
        ledger: StudyLedger,
        search: SearchConfig,
        directory: RunDirectory,
        concurrent: int,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._search = search
        self._directory = directory
        self._concurrent = concurrent
        self._stopping = stopping

    def suggest(  # type: ignore[override]
        self, trial_id: str
    ) -> dict[str, Any] | str | None:
        """Starts the next trial of the study; ``FINISHED`` when none is left, ``None`` for "not now"."""
        # Ray asks its stopper between steps only, and in a step without a trial it asks here for ten minutes.
        while not self._stopping() and not self._ledger.given_up:
            if self._ledger.exhausted:
                return str(Searcher.FINISHED)
            if self._ledger.live >= self._concurrent:
                return None
            if self._ledger.waits_for_others:
                return None
            started = self._ledger.start(trial_id)
            if started is not None:
                assignment = Assignment(
                    number=started.number,
                    config=started.config,
                    directory=self._directory.trial(started.number),
                    stop_file=self._directory.stop_file,
                    gpus=self._search.gpus_per_trial,
                    memory_wait=self._search.resources.memory_wait,
                    timeout=self._search.resources.timeout,
                )
                return {ASSIGNMENT: assignment}
        return str(Searcher.FINISHED)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Fails a trial that no report has settled: its process died more often than it may be retried."""
        if error:
            self._ledger.lose(trial_id)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Ray snapshots its searcher; the study is the state, and nothing here can be pickled

    def save(self, checkpoint_path: str) -> None:
        """Writes nothing: the study is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Reads nothing: the study is the state."""
