"""StudyLedger: the one writer of a study. It maps Ray's trials to Optuna's and settles every one of them."""

from __future__ import annotations

import enum
import logging
import math
from dataclasses import dataclass
from typing import Protocol

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from hpo.config import SearchConfig
from hpo.dashboard.trial_page import TrialPages
from hpo.failures import Failures
from hpo.gpus.gpu_memory import GpuUsage
from hpo.pruning.pruners import make_pruner
from hpo.sampling.suggestions import make_sampler, suggest
from hpo.storage.mirrored_storage import together
from hpo.study import attributes
from hpo.study.run_directory import RunDirectory
from hpo.study.shared_study import SharedStudy
from hpo.study.studies import finished, requeue, running
from hpo.study.trial_files import write_place
from hpo.trial.watchdog import has_timed_out, timeout_reason
from trainer.config import SearchSpace, TrainerConfig
from trainer.errors import FoxtuneError
from trainer.reports import EpochReport
from trainer.wording import plural

logger = logging.getLogger("foxtune")


class Decision(enum.Enum):
    """What becomes of a trial after an epoch."""

    CONTINUE = "continue"
    STOP = "stop"  # the trial is settled: COMPLETE or PRUNED


@dataclass(frozen=True)
class Started:
    """A trial that is to run now.

    Attributes:
        number: Optuna's trial number.
        config: The effective configuration.
        params: The suggested values.
    """

    number: int
    config: TrainerConfig
    params: dict[str, object]


class Watcher(Protocol):
    """Is told what happens, for progress."""

    def started(self, number: int, params: dict[str, object]) -> None:
        """A trial starts or goes on."""

    def epoch(self, number: int, report: EpochReport) -> None:
        """A trial has done an epoch."""

    def ended(self, number: int, state: str, value: float | None, reason: str | None) -> None:
        """A trial is settled."""


class StudyLedger:
    """Writes trials, epoch scores and final states into a study.

    Args:
        study: The study; no other process writes to the trials that this one runs.
        storage: Its storage.
        search: How many trials, which sampler and pruner.
        space: The search space.
        data: Stored with every trial.
        directory: Trial folders.
        watcher: Told of every event.
        shared: The study as several drivers share it, where its storage allows them.

    Attributes:
        failures: What went wrong so far.
    """

    def __init__(
        self,
        study: optuna.Study,
        storage: BaseStorage,
        search: SearchConfig,
        space: SearchSpace,
        data: attributes.DataRecord,
        directory: RunDirectory,
        watcher: Watcher,
        shared: SharedStudy | None = None,
    ) -> None:
        self._study = study
        self._storage = storage
        self._search = search
        self._space = space
        self._data = data
        self._directory = directory
        self._watcher = watcher
        self._shared = shared
        self._pages = TrialPages(directory, search.artifacts)
        self._live: dict[str, optuna.Trial] = {}
        self._usage: dict[str, GpuUsage] = {}
        self._settled: list[int] = []
        self.failures = Failures(search.max_consecutive_bad)
        study.pruner = make_pruner(search)

    @property
    def live(self) -> int:
        """Trials that run now."""
        return len(self._live)

    @property
    def live_numbers(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(sorted(trial.number for trial in self._live.values()))

    @property
    def exhausted(self) -> bool:
        """Whether every trial that was asked for has ended or runs."""
        return finished(self._study) + self.live >= self._search.trials

    @property
    def waits_for_others(self) -> bool:
        """Whether other drivers run all trials that are left; those of one that dies will be free again."""
        if self._shared is None or not self._is_full():
            return False
        self._shared.free_orphans()
        return self._is_full()

    @property
    def given_up(self) -> bool:
        """Whether too many trials failed in a row, or none can run any more."""
        return self.failures.too_many or self.failures.obstacle is not None

    @property
    def completed(self) -> int:
        """COMPLETE trials of the study."""
        return len(self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))

    def start(self, key: str) -> Started | None:
        """Asks the study for the next trial; interrupted ones come first.

        Args:
            key: Ray's name for it.

        Returns:
            The trial, or ``None`` if its configuration is illegal, it has FAILed then, or if another driver
            has taken the last one.
        """
        with together(self._storage):
            trial = self._ask() if self._shared is None else self._shared.claim(self._is_full, self._ask)
            if trial is None:
                return None
            self._live[key] = trial
            if attributes.CONFIG not in trial.user_attrs:
                self._directory.clear_trial(trial.number)
            params = suggest(trial, self._space)
            self._watcher.started(trial.number, dict(params))
            try:
                config = self._search.trial_trainer.with_overrides(params)
            except FoxtuneError as error:
                self.fail(key, str(error))
                return None
            attributes.write_start(trial, config, self._data)
            if self._shared is not None:
                write_place(trial, self._directory)
            return Started(trial.number, config, dict(params))

    def record(self, key: str, reports: tuple[EpochReport, ...]) -> Decision:
        """Takes the reports of a trial; those of epochs that the study knows already are skipped.

        The last epoch makes the trial COMPLETE with that epoch's score. Between ``grace_epochs`` and the
        last epoch the pruner may make it PRUNED.
        """
        if not self._is_ours(key):
            return Decision.STOP
        trial = self._live[key]
        known = set(self._study.get_trials(deepcopy=False)[trial.number].intermediate_values)
        for report in reports:
            if report.epoch in known and report.epoch < max(known):
                continue
            if not math.isfinite(report.score.value):  # Optuna takes no such value, and none is comparable
                self.fail(key, f"the score of epoch {report.epoch} is {report.score.value}")
                return Decision.STOP
            if report.epoch not in known:
                attributes.write_epoch(trial, report.score, report.learning, report.seconds)
                if self._search.stopping.pruner == "paired":
                    attributes.write_epoch_sharpes(trial, report.epoch, report.score)
                trial.report(report.score.value, report.epoch)
                self._watcher.epoch(trial.number, report)
            if report.epoch >= report.epochs:
                self._settle(key, TrialState.COMPLETE, report.score.value, None)
                return Decision.STOP
            # The newest known epoch too: a driver that died after storing it had not decided yet.
            if report.epoch >= self._search.stopping.grace_epochs and trial.should_prune():
                self._settle(key, TrialState.PRUNED, None, None)
                return Decision.STOP
        return Decision.CONTINUE

    def describe(self, key: str, machine: attributes.Machine) -> None:
        """Stores where a trial runs."""
        if key in self._live:
            with together(self._storage):
                attributes.write_machine(self._live[key], machine)

    def set_up(self, key: str, setup: attributes.Setup) -> None:
        """Stores what a trial's start cost."""
        if key in self._live:
            with together(self._storage):
                attributes.write_setup(self._live[key], setup)

    def measure(self, key: str, usage: GpuUsage) -> None:
        """Notes what a trial has used of its GPU so far; it is stored when the trial is settled."""
        self._usage[key] = usage

    def fail(self, key: str, reason: str) -> None:
        """Makes a live trial FAIL; nothing happens if it is settled already."""
        if self._is_ours(key):
            self._settle(key, TrialState.FAIL, None, reason)

    def lose(self, key: str) -> None:
        """Fails a live trial whose process died and is not retried; says so if the watchdog ended it.

        When an obstacle ends the search, its trials wait for their continuation instead.
        """
        if self.failures.obstacle is not None or not self._is_ours(key):
            return
        reason = f"{attributes.KILLED}: its process died, retried {plural(self._search.max_failures, 'time')}"
        if has_timed_out(self._directory.trial(self._live[key].number)):
            reason = timeout_reason(self._search.resources.timeout)
        self.fail(key, reason)

    def interrupt(self) -> tuple[int, ...]:
        """Puts every live trial back to WAITING and returns their numbers."""
        numbers = self.live_numbers
        for number in numbers:
            if self._shared is None:
                requeue(self._study, self._storage, number)
            else:
                self._shared.give_back(number)
        self._live.clear()
        return numbers

    def drop_checkpoints(self) -> None:
        """Deletes the resume state of all trials that this ledger settled."""
        self._directory.drop_checkpoints(self._settled)
        self._settled.clear()

    def _ask(self) -> optuna.Trial:
        trials = self._study.get_trials(deepcopy=False)
        waiting = [each.number for each in trials if each.state == TrialState.WAITING]
        number = waiting[0] if waiting else len(trials)
        self._study.sampler = make_sampler(self._search, self._space, number)
        return self._study.ask()

    def _is_full(self) -> bool:
        return finished(self._study) + len(running(self._study)) >= self._search.trials

    def _is_ours(self, key: str) -> bool:
        """Whether a trial is live and, where drivers share the study, not given to another meanwhile."""
        if key in self._live and self._shared is not None:
            number = self._live[key].number
            if not self._shared.owns(number):
                logger.warning("trial %d was given to another driver while this one was silent", number)
                del self._live[key]
        return key in self._live

    def _tell(self, trial: optuna.Trial, value: float | None, state: TrialState) -> FrozenTrial | None:
        if self._shared is None:
            return self._study.tell(trial, value, state=state)
        return self._shared.while_owned(trial.number, lambda: self._study.tell(trial, value, state=state))

    def _settle(self, key: str, state: TrialState, value: float | None, reason: str | None) -> None:
        trial = self._live[key]
        if reason is not None:
            trial.set_user_attr(attributes.REASON, reason)
        if (usage := self._usage.pop(key, None)) is not None:
            attributes.write_usage(trial, usage)
        attributes.write_end(trial, attributes.read_score(trial))
        attributes.write_statistics(trial, self._directory.trial(trial.number))
        attributes.write_cost(trial, self._search.gpus_per_trial)
        self._pages.write(trial, state, value, reason)
        frozen = self._tell(trial, value, state)
        del self._live[key]
        if frozen is None:
            return
        self.drop_checkpoints()
        self._settled.append(trial.number)
        self.failures.count(reason)
        self._watcher.ended(trial.number, state.name, frozen.value, reason)
