"""foxtune dashboard: Optuna Dashboard on a study's storage, on this machine only unless told otherwise."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hpo.commands.command import Command, Context
from hpo.commands.study_flags import add_study_arguments
from trainer.errors import ConfigError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    parser.add_argument("--port", type=int, default=8080, metavar="N", help="port (default: 8080)")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address (default: 127.0.0.1)")


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.commands.stored_trial import open_named
    from hpo.study.trial_files import files_elsewhere

    require_free_port(arguments.host, arguments.port)
    opened = open_named(arguments)
    if opened.reconciliation.message is not None:
        print(opened.reconciliation.message)
    if (left_out := files_elsewhere(opened.study, opened.directory)) is not None:
        print(left_out)
    if arguments.host not in LOOPBACK:
        print(f"anyone who can reach {arguments.host} can read and change the study: there is no password")
    print(f"http://{arguments.host}:{arguments.port}/dashboard  (ctrl-C stops it)", flush=True)
    from optuna_dashboard import wsgi

    from hpo.dashboard.artifact_files import open_store
    from hpo.dashboard.wrapped_lines import wrapped_lines

    pages = wsgi(opened.storage, artifact_store=open_store(opened.directory.artifacts))
    pages.install(wrapped_lines)
    pages.run(host=arguments.host, port=arguments.port)
    return 0


def require_free_port(host: str, port: int) -> None:
    """Refuses an address that cannot be listened on, before the study is opened.

    Raises:
        ConfigError: With the reason.
    """
    import socket

    if not host:  # which a socket takes for every interface
        raise ConfigError("--host", "must be an address like 127.0.0.1, but got nothing")
    if port == 0:  # a free one, that nobody would be told
        raise ConfigError("--port", "must lie between 1 and 65535, but got 0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            "--port", f"cannot listen on {host}:{port} ({reason}); choose another --port or --host"
        ) from None


COMMAND = Command("dashboard", "show a study in Optuna Dashboard", _add_arguments, _run)
