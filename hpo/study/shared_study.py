"""SharedStudy: several drivers, on several machines, run one study in PostgreSQL and share its trials."""

from __future__ import annotations

import logging
import os
import platform
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import optuna
import psutil
import sqlalchemy
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import DBAPIError

from hpo.storage.patient_storage import PatientStorage
from hpo.study.attributes import DRIVER

BEAT_SECONDS = 10.0
LEASE_SECONDS = 60.0  # a driver that was not seen for so long is taken for dead
LOCK_SPACE = 0x466F78  # the first half of the advisory lock's key; the second is the study

CREATE = sqlalchemy.text(
    "CREATE TABLE IF NOT EXISTS foxtune_drivers (driver text PRIMARY KEY, study_id integer NOT NULL, "
    "place text NOT NULL, pid integer NOT NULL, born double precision NOT NULL, seen timestamptz NOT NULL)"
)
BEAT = sqlalchemy.text(
    "INSERT INTO foxtune_drivers VALUES (:driver, :study, :place, :pid, :born, now()) "
    "ON CONFLICT (driver) DO UPDATE SET seen = now()"
)
LEAVE = sqlalchemy.text("DELETE FROM foxtune_drivers WHERE driver = :driver")
# The age counts from the server's start at the earliest: while it was away nobody could be seen.
PRESENT = sqlalchemy.text(
    "SELECT driver, place, pid, born, "
    "extract(epoch FROM now() - greatest(seen, pg_postmaster_start_time()))::double precision AS age "
    "FROM foxtune_drivers WHERE study_id = :study"
)
LOCK = sqlalchemy.text("SELECT pg_advisory_xact_lock(:space, :study)")

Answer = TypeVar("Answer")

logger = logging.getLogger("foxtune")


@dataclass(frozen=True)
class Present:
    """A driver that has signed in.

    Attributes:
        driver: Its name, ``pid N on HOST`` and a random part.
        place: Host and process namespace; in its own place a process can be looked for.
        pid: Its process.
        born: When the process started, seconds since 1970.
        age: Seconds since it was last seen.
    """

    driver: str
    place: str
    pid: int
    born: float
    age: float

    @property
    def dead(self) -> bool:
        """Whether its process is known to be gone, or it has not been seen for too long."""
        if self.age > LEASE_SECONDS:
            return True
        return self.place == own_place() and not _lives(self.pid, self.born)


class SharedStudy:
    """Decides under the study's advisory lock which driver runs which trial.

    Args:
        study: Of foxtune.
        storage: Where it lies.
    """

    def __init__(self, study: optuna.Study, storage: PatientStorage) -> None:
        self._study = study
        self._storage = storage
        self._study_id = storage.get_study_id_from_name(study.study_name)
        self.driver = f"pid {os.getpid()} on {platform.node()} ({uuid.uuid4().hex[:8]})"
        self._lock = {"space": LOCK_SPACE, "study": self._study_id}
        self._exclusively(self._create_table)

    @contextmanager
    def signed_in(self) -> Iterator[None]:
        """Shows the other drivers that this one lives, until the end of the block or of the process."""
        self._storage.outlast(self._beat)
        ended = threading.Event()
        thread = threading.Thread(target=self._beat_until, args=(ended,), name="driver lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._storage.outlast(self._leave)

    def claim(self, full: Callable[[], bool], ask: Callable[[], optuna.Trial]) -> optuna.Trial | None:
        """Takes the next trial for this driver, unless ``full()``: all have ended or run somewhere."""

        def take() -> optuna.Trial | None:
            self._free()
            if full():
                return None
            trial = ask()
            trial.set_user_attr(DRIVER, self.driver)
            return trial

        return self._exclusively(take)

    def owns(self, number: int) -> bool:
        """Whether a trial is still this driver's: after a long silence it may have been given to another."""
        trial = self._study.get_trials(deepcopy=False)[number]
        return trial.state == TrialState.RUNNING and trial.user_attrs.get(DRIVER) == self.driver

    def while_owned(self, number: int, change: Callable[[], Answer]) -> Answer | None:
        """Calls ``change`` if the trial is this driver's, which nobody alters meanwhile; else ``None``."""
        return self._exclusively(lambda: change() if self.owns(number) else None)

    def give_back(self, number: int) -> None:
        """Lets any driver go on with a trial."""
        self.while_owned(number, lambda: self._release(self._study.get_trials(deepcopy=False)[number]))

    def free_orphans(self) -> tuple[int, ...]:
        """Puts the RUNNING trials of dead drivers back to WAITING and returns their numbers."""
        return self._exclusively(self._free)

    def others(self) -> tuple[str, ...]:
        """Names of the other drivers that live."""
        return tuple(each.driver for each in self._present() if not each.dead and each.driver != self.driver)

    def _free(self) -> tuple[int, ...]:
        present = self._present()
        alive = {each.driver for each in present if not each.dead} | {self.driver}
        freed = []
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.user_attrs.get(DRIVER) not in alive:  # no name: broken off while being asked for
                self._release(trial)
                freed.append(trial.number)
        with self._storage.engine.begin() as connection:
            for each in present:
                if each.dead:
                    connection.execute(LEAVE, {"driver": each.driver})
        if freed:
            logger.info("wait again, their drivers died: %s", freed)
        return tuple(freed)

    def _release(self, trial: FrozenTrial) -> None:
        self._storage.set_trial_user_attr(trial._trial_id, DRIVER, "")
        self._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)

    def _present(self) -> list[Present]:
        with self._storage.engine.connect() as connection:
            rows = connection.execute(PRESENT, {"study": self._study_id}).all()
        return [Present(*row) for row in rows]

    def _exclusively(self, call: Callable[[], Answer]) -> Answer:
        def locked() -> Answer:
            # The lock ends with its transaction. If the server goes away, all of it is done again.
            with self._storage.engine.begin() as connection:
                connection.execute(LOCK, self._lock)
                return call()

        return self._storage.outlast(locked)

    def _create_table(self) -> None:
        with self._storage.engine.begin() as connection:
            connection.execute(CREATE)

    def _beat(self) -> None:
        process = psutil.Process()
        row = {
            "driver": self.driver,
            "study": self._study_id,
            "place": own_place(),
            "pid": process.pid,
            "born": process.create_time(),
        }
        with self._storage.engine.begin() as connection:
            connection.execute(BEAT, row)

    def _beat_until(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_SECONDS):
            try:
                self._beat()
            except (DBAPIError, OSError) as error:  # the driver's own calls wait for the server and say so
                logger.debug("storage: not seen by the other drivers: %s", error)

    def _leave(self) -> None:
        with self._storage.engine.begin() as connection:
            connection.execute(LEAVE, {"driver": self.driver})


def shared_study(study: optuna.Study, storage: BaseStorage) -> SharedStudy | None:
    """The study as its drivers share it; ``None`` where the storage allows one driver only."""
    return SharedStudy(study, storage) if isinstance(storage, PatientStorage) else None


def own_place() -> str:
    """Host and process namespace: two containers may share a host's name, but not its processes."""
    return f"{platform.node()} {os.readlink('/proc/self/ns/pid')}"


def _lives(pid: int, born: float) -> bool:
    try:
        process = psutil.Process(pid)
        return bool(abs(process.create_time() - born) < 1.0 and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
