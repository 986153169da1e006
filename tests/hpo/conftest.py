from __future__ import annotations

import contextlib
import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_training
import pytest

from hpo.config import SearchConfig
from trainer.config import Choice, Float, SearchSpace, When, validated

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def fakes() -> Iterator[ModuleType]:
    """The module ``fake_training``, importable in Ray's workers too."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(HERE)])
    yield fake_training
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture
def space() -> SearchSpace:
    return SearchSpace(
        "test",
        (
            Float("iql_expectile_tau", 0.5, 0.95),
            Float("iql_advantage_temperature", 1.0, 30.0, log=True),
            Float("her_ratio", 0.0, 0.8, step=0.1),
            Choice("her_strategy", ("final", "future"), when=When("her_ratio", above=0.0)),
        ),
    )


@pytest.fixture
def make_search(tmp_path: Path) -> Callable[..., SearchConfig]:
    """Builds a CPU search in the test's own folder; ``epochs`` goes to the trainer."""

    def build(epochs: int = 3, **keys: Any) -> SearchConfig:
        base: dict[str, Any] = {
            "study": "s",
            "runs": str(tmp_path / "runs"),
            "trials": 4,
            "resources": {"gpu": 0},
            "trainer": {"training": {"epochs": epochs}},
        }
        return validated(SearchConfig, {**base, **keys})

    return build


@pytest.fixture(scope="session")
def cluster(fakes: ModuleType) -> Iterator[None]:
    """One Ray cluster for all tests; a search uses the one that its process is connected to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own imports and process handling
        from hpo.cluster.ray_cluster import connected

        search = validated(SearchConfig, {"resources": {"gpu": 0}, "concurrent": 2})
        with connected(search, (), 2, 0):
            yield


@pytest.fixture
def driver(fakes: ModuleType) -> Iterator[Callable[..., Any]]:
    """Starts drivers, and ends those that a failed test leaves."""
    import killed_search

    started = []

    def start(*arguments: Any) -> Any:
        started.append(killed_search.start(*arguments))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture(scope="session")
def postgres_server(fakes: ModuleType) -> Iterator[Any]:
    """A PostgreSQL server that a test may stop and start; CI fails where it is not installed."""
    from postgres_server import PostgresServer, find_binaries

    binaries = find_binaries()
    if binaries is None:
        missing = "PostgreSQL is not installed: apt-get install postgresql"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    server = PostgresServer(binaries)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of an empty database: on the server of FOXTUNE_TEST_POSTGRES, else on one of our own."""
    import uuid

    import sqlalchemy

    from hpo.storage.postgres import with_driver

    given = os.environ.get("FOXTUNE_TEST_POSTGRES")
    server = with_driver(given or request.getfixturevalue("postgres_server").url)
    name = f"foxtune_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    opened: list[Any] = []

    def remember(connection: Any, record: Any) -> None:
        opened.append(connection)

    sqlalchemy.event.listen(sqlalchemy.pool.Pool, "connect", remember)
    yield server.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    sqlalchemy.event.remove(sqlalchemy.pool.Pool, "connect", remember)
    for connection in opened:
        with contextlib.suppress(Exception):  # closed already, or its server was stopped
            connection.close()
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # pools that tests opened and left behind
        gc.collect()


@pytest.fixture
def restartable(postgres_server: Any, postgres: str) -> Any:
    """The server of ``postgres``, for a test that stops and starts it."""
    from sqlalchemy.engine import make_url

    if make_url(postgres).port != postgres_server.port:
        pytest.fail("unset FOXTUNE_TEST_POSTGRES: this test stops its own server")
    return postgres_server
