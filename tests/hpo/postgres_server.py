"""A PostgreSQL server of its own for the tests: on loopback, in a temporary folder, not as root."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

BINARIES = "/usr/lib/postgresql"  # Debian keeps initdb and pg_ctl off the PATH


def find_binaries() -> Path | None:
    """The folder of initdb and pg_ctl, the newest version's."""
    on_path = shutil.which("pg_ctl")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(Path(BINARIES).glob("*/bin"), key=lambda path: -float(path.parent.name))
    return next((path for path in found if (path / "initdb").exists()), None)


class PostgresServer:
    """Started by :meth:`start`, stopped by :meth:`stop`, as often as a test likes; the data stay.

    Args:
        binaries: Folder of initdb and pg_ctl.
    """

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="foxtune-postgres-", dir="/tmp"))
        self._prefix: list[str] = []
        if os.geteuid() == 0:  # initdb refuses root
            shutil.chown(self.folder, "nobody")
            self._prefix = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._run("initdb", "-D", "data", "-U", "fox", "-A", "trust", "-E", "UTF8", "--no-sync")

    @property
    def url(self) -> str:
        """Of the database that every server has."""
        return f"postgresql://fox@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Returns when it accepts connections."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder} -c fsync=off"
        self._run("pg_ctl", "-D", "data", "-w", "-s", "-l", "log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Ends every connection and returns when it is down; ``immediate`` is as if it had crashed."""
        self._run("pg_ctl", "-D", "data", "-w", "-s", "-m", mode, "stop")

    def remove(self) -> None:
        """Stops it if it runs and deletes everything."""
        if (self.folder / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._prefix, str(self._binaries / program), *arguments]
        with (self.folder / "output").open("a") as output:  # a pipe would be held open by the server
            subprocess.run(
                command, cwd=self.folder, check=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
