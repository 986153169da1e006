"""How fast a search ran: trials per hour, and how long a GPU stood between two trials."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from optuna.trial import FrozenTrial

from hpo.study.attributes import FIRST_EPOCH_AT, FORKED_FROM, SETUP_SECONDS, WARM, read_machine
from trainer.wording import plural

HOUR = 3600.0


@dataclass(frozen=True)
class Gap:
    """From the end of a trial to the first epoch of the next one on the same device.

    Attributes:
        device: Host, and the GPU's name and UUID.
        number: The trial that followed.
        seconds: Asking for it, Ray's hand-over and its set-up included.
        warm: Whether it took over buffers and graphs.
    """

    device: str
    number: int
    seconds: float
    warm: bool


@dataclass(frozen=True)
class SearchRates:
    """Rates of a study's own trials.

    Attributes:
        trials: Trials that have ended, those copied from another study not counted.
        seconds: Time during which at least one of them was under way.
        gaps: In the order of the trials that followed.
        timed: Trials whose start was timed.
    """

    trials: int
    seconds: float
    gaps: tuple[Gap, ...]
    timed: int

    @property
    def trials_per_hour(self) -> float | None:
        """Trials that end in an hour; None before one has."""
        return self.trials * HOUR / self.seconds if self.seconds > 0 else None

    def median_gap(self, *, warm: bool) -> float | None:
        """Median gap in seconds before trials with a warm or with a cold start; None without any."""
        seconds = [gap.seconds for gap in self.gaps if gap.warm == warm]
        return statistics.median(seconds) if seconds else None

    @property
    def line(self) -> str:
        """One line for people; what is unknown is left out."""
        parts = [plural(self.trials, "trial")]
        if self.trials_per_hour is not None:
            parts.append(f"{self.trials_per_hour:.0f} an hour")
        for name, gap in (("warm", self.median_gap(warm=True)), ("cold", self.median_gap(warm=False))):
            if gap is not None:
                parts.append(f"{gap:.2f} s between two trials of a device ({name} start, median)")
        return ", ".join(parts)


def search_rates(trials: Sequence[FrozenTrial]) -> SearchRates:
    """Measures the trials of a study from the times that are stored with them.

    The end of a trial is when the driver settled it; the first epoch is timed by the trial's own process.
    Where a device runs several trials at a time, a trial follows the one that ended last before it began.
    """
    ended = [each for each in trials if each.state.is_finished() and FORKED_FROM not in each.user_attrs]
    spans = [
        (trial.datetime_start.timestamp(), trial.datetime_complete.timestamp())
        for trial in ended
        if trial.datetime_start is not None and trial.datetime_complete is not None
    ]
    timed = sum(SETUP_SECONDS in trial.user_attrs for trial in ended)
    return SearchRates(len(ended), _covered(spans), _gaps(ended), timed)


def _gaps(ended: list[FrozenTrial]) -> tuple[Gap, ...]:
    devices: dict[str, list[FrozenTrial]] = {}
    for trial in ended:
        machine = read_machine(trial)
        if machine is not None and FIRST_EPOCH_AT in trial.user_attrs and trial.datetime_complete is not None:
            devices.setdefault(f"{machine.host} {machine.gpu}", []).append(trial)
    gaps = []
    for device, trials in devices.items():
        free = sorted(trial.datetime_complete.timestamp() for trial in trials if trial.datetime_complete)
        for trial in sorted(trials, key=lambda each: float(each.user_attrs[FIRST_EPOCH_AT])):
            began = float(trial.user_attrs[FIRST_EPOCH_AT])
            before = [end for end in free if end <= began]
            if before:
                free.remove(before[-1])
                gaps.append(Gap(device, trial.number, began - before[-1], bool(trial.user_attrs[WARM])))
    return tuple(sorted(gaps, key=lambda gap: gap.number))


def _covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, reached = 0.0, -float("inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return total
