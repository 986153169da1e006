"""StudyScheduler: passes every epoch to the ledger and stops a trial when it is settled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from hpo.ledger import Decision, StudyLedger
from hpo.trial.trainable import OUTCOME, Outcome

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController


class StudyScheduler(FIFOScheduler):
    """Runs trials in the order of the study; an Optuna pruner decides who stops early.

    Args:
        ledger: The study's writer.
    """

    def __init__(self, ledger: StudyLedger) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ledger = ledger

    def __getstate__(self) -> dict[str, Any]:
        return {}  # as for the searcher: Ray snapshots it, and the study is the state

    def on_trial_result(self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]) -> str:
        """Records an epoch, or the reason of a failure."""
        outcome: Outcome = result[OUTCOME]
        if outcome.machine is not None:
            self._ledger.describe(trial.trial_id, outcome.machine)
        if outcome.setup is not None:
            self._ledger.set_up(trial.trial_id, outcome.setup)
        if outcome.usage is not None:
            self._ledger.measure(trial.trial_id, outcome.usage)
        if outcome.failure is not None and outcome.obstacle:
            self._ledger.failures.meet(outcome.failure)
            trial.max_failures = 0
            return str(TrialScheduler.CONTINUE)
        if outcome.failure is not None:
            self._ledger.fail(trial.trial_id, outcome.failure)
            trial.max_failures = 0  # the next step raises and ends the process: nothing to retry
            return str(TrialScheduler.CONTINUE)
        stop = self._ledger.record(trial.trial_id, outcome.reports) is Decision.STOP
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)
