"""The driver's loop: runs Ray Tune over an open and locked study, and settles every trial in the end."""

from __future__ import annotations

import gc
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from ray.tune import CheckpointConfig, FailureConfig, RunConfig, Stopper, TuneConfig, Tuner
from ray.tune.experiment import Trial

from hpo.cluster.cluster_watch import posts_of_this_cluster, watching
from hpo.cluster.ray_cluster import Cluster, connected, require_code_on_every_node, require_on_every_node
from hpo.cluster.submission import build_trainable, size_in_bytes
from hpo.config import SearchConfig
from hpo.dashboard.study_page import describe_study
from hpo.durations import exact_duration
from hpo.gpus.nvml import find_nvml
from hpo.gpus.resources import Gpu, concurrency
from hpo.job import Job
from hpo.ledger import StudyLedger
from hpo.outcome import Ended, SearchOutcome, summarise
from hpo.progress.progress import Display, LineDisplay, SearchProgress
from hpo.progress.progress_table import TableDisplay, gpu_use
from hpo.progress.standing import BestSoFar, Standing
from hpo.scheduler import StudyScheduler
from hpo.searcher import StudySearcher
from hpo.storage.full_disk import full_disk
from hpo.storage.mirrored_storage import mirrored
from hpo.storage.storage_files import ALTERNATIVES, sqlite_file
from hpo.study.attributes import DataRecord, best_trial, read_score
from hpo.study.run_directory import RunDirectory
from hpo.study.shared_study import shared_study
from hpo.study.studies import ended, finished
from hpo.trial.trainable import ASSIGNMENT, Assignment
from trainer.errors import ConfigError
from trainer.wording import plural

BUDGET_GRACE_SECONDS = 20.0


class SearchStopper(Stopper):
    """Ends the search on a signal, at the end of the time budget, or when too many trials failed.

    Trials are told through the stop file to save what they have.
    """

    def __init__(self, job: Job, ledger: StudyLedger, directory: RunDirectory, started: float) -> None:
        budget = job.search.time_budget
        self._deadline = None if budget is None else started + budget
        self._interruption = job.interruption
        self._ledger = ledger
        self._directory = directory
        self._stopping = False

    def __getstate__(self) -> dict[str, object]:
        return {}  # Ray snapshots it, and nothing here can be pickled or needs to be

    def __call__(self, trial_id: str, result: dict[str, object]) -> bool:
        """Single trials are stopped by the scheduler."""
        return False

    def stop_all(self) -> bool:
        """Whether to end now; asked several times a second."""
        late = self._deadline is not None and time.monotonic() >= self._deadline
        if not self._stopping and (late or self._interruption.requested or self._ledger.given_up):
            self._stopping = True
            self._directory.stop_file.touch()
            if not self._interruption.requested:
                self._interruption.limit(BUDGET_GRACE_SECONDS)
        return self._stopping


def drive(job: Job) -> SearchOutcome:
    """Runs trials until enough have ended, the budget is used up, too many fail, or a signal comes.

    However it ends, no trial is left RUNNING.
    """
    started = time.monotonic()
    search, directory = job.search, RunDirectory.of(job.search)
    directory.stop_file.unlink(missing_ok=True)
    directory.drop_checkpoints(ended(job.study))  # a driver that died may have left some
    data = DataRecord.of(job.market, search.trainer.data.path)
    describe_study(job.study, search, job.space, job.market)
    shared = shared_study(job.study, job.storage)
    display = job.display or default_display(job.place.gpus)
    if search.time_budget is not None:
        job.say(f"time budget {exact_duration(search.time_budget)}")
    with (
        SearchProgress(search.study, _standing(job), display) as progress,
        nullcontext() if shared is None else shared.signed_in(),
        _imports_out_of_collections(),
    ):
        study, storage = mirrored(job.study, job.storage)
        ledger = StudyLedger(study, storage, search, job.space, data, directory, progress, shared)
        try:
            _run_ray(job, ledger, directory, started)
        except KeyboardInterrupt:  # SearchStopped, as Ray's core passes it on
            if ledger.live and job.interruption.loss is None:
                job.say("the trials did not stop in time and were ended; checkpoints remain")
        except Exception as error:
            if (obstacle := full_disk(error)) is None:
                raise
            ledger.failures.meet(obstacle)
        finally:
            job.interruption.close()
            left = settle(ledger)
            directory.stop_file.unlink(missing_ok=True)
            shutil.rmtree(directory.scratch, ignore_errors=True)
    return _outcome(job, ledger, directory, bool(left), time.monotonic() - started)


@contextmanager
def _imports_out_of_collections() -> Iterator[None]:
    """Keeps Python's garbage collector from going through all that the imports made, again and again.

    A driver makes so many objects at every ask that full collections took a quarter of a search of short
    trials.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def settle(ledger: StudyLedger) -> tuple[int, ...]:
    """Lets the live trials wait for their continuation and returns their numbers.

    Where the disk is too full for that, they stay RUNNING until the study is opened again.
    """
    numbers = ledger.live_numbers
    try:
        ledger.interrupt()
        ledger.drop_checkpoints()
    except Exception as error:
        if (obstacle := full_disk(error)) is None:
            raise
        ledger.failures.meet(obstacle)
    return numbers


def default_display(gpus: tuple[Gpu, ...]) -> Display:
    """A live table where stderr is a terminal, else a line per trial."""
    if sys.stderr.isatty():
        return TableDisplay(lambda: gpu_use(gpus, find_nvml()))
    return LineDisplay()


def _standing(job: Job) -> Standing:
    search, best = job.search, best_trial(job.study.get_trials(deepcopy=False))
    known = None
    if best is not None and best.value is not None:
        score = read_score(best)
        known = BestSoFar(best.value, best.number, None if score is None else score.standard_error)
    updates = search.trainer.training.updates
    return Standing(search.trials, finished(job.study), search.time_budget, known, updates)


def _run_ray(job: Job, ledger: StudyLedger, directory: RunDirectory, started: float) -> None:
    search = job.search
    gpus, address = job.place.gpus, job.place.address
    planned = concurrency(search, len(gpus)) if address is None else search.concurrent
    with connected(search, gpus, planned, size_in_bytes(job.market), address) as cluster:
        job.interruption.install()
        job.say(cluster.note)
        require_fit(search, directory, cluster)
        require_on_every_node(cluster, "runs", directory.path)
        require_code_on_every_node(cluster)
        concurrent = concurrency(search, cluster.gpus)
        if concurrent < search.concurrent:
            offered = plural(cluster.gpus, "GPU", "g")
            job.say(f"{plural(concurrent, 'trial')} at a time, not {search.concurrent}: {offered}")
        stopper = SearchStopper(job, ledger, directory, started)
        tuner = Tuner(
            build_trainable(search, job.market, job.training),
            tune_config=TuneConfig(
                search_alg=StudySearcher(ledger, search, directory, concurrent, stopper.stop_all),
                scheduler=StudyScheduler(ledger),
                num_samples=search.trials + search.max_consecutive_bad,
                reuse_actors=True,
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=RunConfig(
                name=search.study,
                storage_path=str(directory.scratch),
                stop=stopper,
                checkpoint_config=CheckpointConfig(checkpoint_at_end=False),  # the training writes its own
                failure_config=FailureConfig(max_failures=search.max_failures),
                verbose=0,
            ),
        )
        job.interruption.wait_for_trials()
        with watching(posts_of_this_cluster(), job.interruption.lose):
            try:
                tuner.fit()
            except KeyboardInterrupt:
                if job.interruption.loss is not None:  # at once: leaving a dead cluster may end this process
                    settle(ledger)
                raise


def _name(trial: Trial) -> str:
    assignment: Assignment = trial.config[ASSIGNMENT]
    return f"trial-{assignment.number}-{trial.trial_id}"


def require_fit(search: SearchConfig, directory: RunDirectory, cluster: Cluster) -> None:
    """Refuses a cluster without the GPUs of one trial, and SQLite where it has several machines.

    Raises:
        ConfigError: Naming ``resources.gpu`` or ``storage``, with the alternatives.
    """
    if cluster.gpus < search.gpus_per_trial:
        raise ConfigError(
            "resources.gpu",
            f"the cluster has {plural(cluster.gpus, 'GPU', 'g')}, but a trial asks for "
            f"{search.gpus_per_trial:g}; use --backend reference --gpus-per-trial 0, or add GPU nodes",
        )
    file = sqlite_file(directory.storage_url(search))
    if len(cluster.nodes) > 1 and file is not None:
        raise ConfigError(
            "storage",
            f"SQLite serves one machine, but the cluster has {len(cluster.nodes)}; {ALTERNATIVES}",
        )


def _outcome(
    job: Job, ledger: StudyLedger, directory: RunDirectory, left: bool, seconds: float
) -> SearchOutcome:
    ended, code, reason = Ended.FINISHED, 0, ledger.failures.commonest_reason
    obstacle = job.interruption.loss or ledger.failures.obstacle
    if obstacle is not None:
        ended, code, reason = Ended.BROKEN_OFF, 1, obstacle
    elif job.interruption.requested:
        ended, code = Ended.INTERRUPTED, job.interruption.exit_code
    elif ledger.given_up:
        ended, code = Ended.TOO_MANY_FAILURES, 1
    elif left or not ledger.exhausted:
        ended = Ended.TIME_BUDGET
    elif ledger.completed == 0:
        ended, code = Ended.NONE_COMPLETE, 1
    url = directory.storage_url(job.search)
    return summarise(job.study, url, directory, ended, reason, code, seconds)
