"""The subcommands of ``foxtune``, one a file, in the order in which ``--help`` lists them."""

from hpo.commands.bench import COMMAND as BENCH
from hpo.commands.check import COMMAND as CHECK
from hpo.commands.clean import COMMAND as CLEAN
from hpo.commands.command import Command
from hpo.commands.config import COMMAND as CONFIG
from hpo.commands.dashboard import COMMAND as DASHBOARD
from hpo.commands.doctor import COMMAND as DOCTOR
from hpo.commands.export import COMMAND as EXPORT
from hpo.commands.holdout import COMMAND as HOLDOUT
from hpo.commands.replay import COMMAND as REPLAY
from hpo.commands.replicate import COMMAND as REPLICATE
from hpo.commands.report import COMMAND as REPORT
from hpo.commands.resume import COMMAND as RESUME
from hpo.commands.signal import COMMAND as SIGNAL
from hpo.commands.spaces import COMMAND as SPACES
from hpo.commands.train import COMMAND as TRAIN
from hpo.commands.tune import COMMAND as TUNE

COMMANDS: tuple[Command, ...] = (
    TUNE,
    RESUME,
    TRAIN,
    REPLAY,
    REPORT,
    REPLICATE,
    HOLDOUT,
    EXPORT,
    SIGNAL,
    DASHBOARD,
    CLEAN,
    SPACES,
    CONFIG,
    CHECK,
    DOCTOR,
    BENCH,
)
