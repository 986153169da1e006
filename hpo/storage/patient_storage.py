"""PatientStorage: waits for a database server that does not answer, as in a restart, instead of dying."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy.exc import DBAPIError

from hpo.storage.postgres import hidden_password
from trainer.errors import ConfigError

WAIT_SECONDS = 300.0
PAUSE_SECONDS = 0.5
# SQLSTATE classes of a server that stops, starts, is full or ends connections; no class: the line is dead.
UNAVAILABLE = ("08", "53", "57P")
CALLS = (
    "create_new_study", "set_study_user_attr", "set_study_system_attr", "get_study_id_from_name",
    "get_study_name_from_id", "get_study_directions", "get_study_user_attrs", "get_study_system_attrs",
    "get_all_studies", "create_new_trial", "set_trial_param", "get_trial_param",
    "set_trial_user_attr", "set_trial_system_attr", "get_trial_id_from_study_id_trial_number", "get_trial",
    "get_all_trials", "_get_trials", "set_trial_intermediate_value",
)  # fmt: skip

Answer = TypeVar("Answer")

logger = logging.getLogger("foxtune")


class PatientStorage(RDBStorage):
    """Optuna's database storage whose calls are repeated until the server answers again.

    Every call is one transaction, so repeating one that was broken off writes nothing twice, with two
    exceptions. The end of a trial that had been stored is recognised as such. A trial that had been created
    stays behind RUNNING without a driver; :class:`hpo.study.shared_study.SharedStudy` finds it.

    Args:
        url: SQLAlchemy's URL.
        engine_kwargs: Of SQLAlchemy's ``create_engine``.
        wait: Seconds after which it gives up, for good.
    """

    def __init__(self, url: str, engine_kwargs: dict[str, Any], wait: float = WAIT_SECONDS) -> None:
        self._wait = wait
        self._calls = threading.local()  # depth of calls that are repeated, by thread
        self._calls.depth = 1  # a server that is away at the start is told at once
        # It tells every connection that has died with a traceback; what has happened is said once, below.
        logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
        super().__init__(url, engine_kwargs)
        self._calls.depth = 0

    def outlast(self, call: Callable[[], Answer]) -> Answer:
        """Repeats ``call`` as a whole until the server answers.

        Raises:
            ConfigError: If it has not answered for the time given, now or before.
        """
        if getattr(self._calls, "depth", 0):
            return call()
        deadline: float | None = None
        while True:
            try:
                with self._impatient():
                    answer = call()
            except (DBAPIError, StorageInternalError, OSError) as error:
                if not is_absence(error):
                    raise
                deadline = self._still_waiting(deadline, error)
                time.sleep(PAUSE_SECONDS)
            else:
                if deadline is not None:
                    logger.warning("storage: the database answers again")
                return answer

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Any = None) -> bool:
        """Changes a trial's state; one that was stored before the server went away counts as stored."""
        tries = 0

        def change() -> bool:
            nonlocal tries
            tries += 1
            return super(PatientStorage, self).set_trial_state_values(trial_id, state, values)

        try:
            return self.outlast(change)
        except UpdateFinishedTrialError:
            if tries > 1 and self.get_trial(trial_id).state == state:
                return True
            raise

    @contextmanager
    def _impatient(self) -> Iterator[None]:
        # What is called inside is not repeated by itself: a transaction or a lock around it has gone too.
        self._calls.depth = 1
        try:
            yield
        finally:
            self._calls.depth = 0

    def _still_waiting(self, deadline: float | None, error: Exception) -> float:
        address, reason = hidden_password(self.url), _reason(error)
        if deadline is None:
            deadline = time.monotonic() + self._wait
            logger.warning(
                "storage: %s does not answer (%s); trying again for up to %g s",
                address, reason, self._wait,
            )  # fmt: skip
        if time.monotonic() >= deadline:
            self._wait = 0.0  # whoever asks next, to tidy up, is refused at once
            raise ConfigError(
                "storage",
                f"{address} did not answer in time ({reason}); start it, then `foxtune resume`",
            ) from None
        return deadline


def is_absence(error: BaseException) -> bool:
    """Whether an error says that the server is away, rather than that the request was wrong."""
    if isinstance(error, StorageInternalError):
        return error.__cause__ is not None and is_absence(error.__cause__)
    if not isinstance(error, DBAPIError):
        return isinstance(error, OSError)
    if error.connection_invalidated or isinstance(error.orig, OSError):
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is None and error.orig is not None and error.orig.args and isinstance(error.orig.args[0], dict):
        state = error.orig.args[0].get("C")  # pg8000 keeps the server's fields by letter
    if state is not None:
        return str(state).startswith(UNAVAILABLE)
    return type(error).__name__ in ("OperationalError", "InterfaceError")


def _reason(error: Exception) -> str:
    broken_by = error.__cause__ if isinstance(error, StorageInternalError) else None  # its own text guesses
    return str(broken_by or error).splitlines()[0]


def _outlasting(name: str) -> Callable[..., Any]:
    original = getattr(RDBStorage, name)

    @functools.wraps(original)
    def call(self: PatientStorage, *arguments: Any, **keywords: Any) -> Any:
        return self.outlast(functools.partial(original, self, *arguments, **keywords))

    return call


for _name in CALLS:
    setattr(PatientStorage, _name, _outlasting(_name))
