"""HalvingPruner: successive halving in Hyperband's brackets, decided from the study alone."""

from __future__ import annotations

import math
import zlib

import optuna
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial, TrialState

REDUCTION = 3  # of the trials that reach a rung one third goes on; rungs lie a factor of three apart


class HalvingPruner(BasePruner):
    """Asynchronous successive halving (Li et al. 2020, ASHA) over the brackets of Hyperband (Li et al. 2018).

    A bracket's rungs are the epochs g, 3g, 9g, .. before the last one; g is ``grace_epochs`` in the first
    bracket and three times as much in each that follows, so that some trials are judged late: an early score
    misleads. A trial that reaches a rung goes on if it is in the best third of those of its bracket that
    have been there. Fewer than three tell nothing, and nobody is stopped.

    The bracket is a function of the study's name and the trial's number, the rest is read from the stored
    scores: a resumed search decides as an uninterrupted one. Optuna's own HyperbandPruner stores its
    decisions and dates them by the call; it also hides the trials of other brackets from the sampler.

    Args:
        grace_epochs: Epoch of the first rung.
        epochs: Epochs of a trial; none is stopped at its last.
        startup_trials: Trials of the study that end before any is stopped.
    """

    def __init__(self, grace_epochs: int, epochs: int, startup_trials: int) -> None:
        self._grace_epochs = grace_epochs
        self._epochs = epochs
        self._startup_trials = startup_trials

    @property
    def brackets(self) -> int:
        """How many brackets have a rung before the last epoch."""
        count = 0
        while self._grace_epochs * REDUCTION**count < self._epochs:
            count += 1
        return max(count, 1)

    def bracket(self, study: str, number: int) -> int:
        """The bracket of a trial; an earlier one has more trials, by Hyperband's shares."""
        brackets = self.brackets
        sizes = [math.ceil(brackets * REDUCTION**left / (left + 1)) for left in reversed(range(brackets))]
        place = zlib.crc32(f"{study}_{number}".encode()) % sum(sizes)
        for index, size in enumerate(sizes):
            if place < size:
                return index
            place -= size
        raise AssertionError("place lies below the sum of the sizes")

    def rungs(self, bracket: int) -> tuple[int, ...]:
        """Epochs at which the trials of a bracket are compared."""
        epochs, epoch = [], self._grace_epochs * REDUCTION**bracket
        while epoch < self._epochs:
            epochs.append(epoch)
            epoch *= REDUCTION
        return tuple(epochs)

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether the trial is to be stopped after its last reported epoch."""
        epoch = trial.last_step
        own_bracket = self.bracket(study.study_name, trial.number)
        if epoch is None or epoch not in self.rungs(own_bracket):
            return False
        others = [other for other in study.get_trials(deepcopy=False) if other.number != trial.number]
        ended = sum(other.state in (TrialState.COMPLETE, TrialState.PRUNED) for other in others)
        if ended < self._startup_trials:
            return False
        rivals = [
            other.intermediate_values[epoch]
            for other in others
            if epoch in other.intermediate_values
            and self.bracket(study.study_name, other.number) == own_bracket
        ]
        reached = len(rivals) + 1
        if reached < REDUCTION:
            return False
        better = sum(_rank(value) > _rank(trial.intermediate_values[epoch]) for value in rivals)
        return better >= reached // REDUCTION


def _rank(value: float) -> float:
    return -math.inf if math.isnan(value) else value
