"""What ``foxtune train --dry-run`` prints: members, shapes, and bytes per buffer, with nothing allocated."""

from __future__ import annotations

from collections.abc import Sequence

from hpo.gpus.resources import Gpu
from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.folds import Fold, split
from trainer.market_environment import market_layout
from trainer.members import members_of
from trainer.memory_plan import MIB, require_fit
from trainer.planned_training import BackendName, plan_training, what_fits
from trainer.wording import plural


def plan(config: TrainerConfig, market: MarketData) -> str:
    """Describes a training without running it.

    Args:
        config: The effective configuration.
        market: Gives the number of bars and of features.

    Returns:
        Several lines for the user.
    """
    rows = len(market.bars)
    parts = split(rows, config.walk_forward)
    members = members_of(config, len(parts.folds))
    layout = market_layout(config, len(market.feature_names))
    lines = [
        f"{market.name}: {plural(rows, 'bar')}, {market.periods_per_year:.2f} a year, "
        f"data {market.data_hash[:12]}",
        f"search rows 0..{parts.search_rows - 1}, hold-out from row {parts.holdout_start}, "
        f"{plural(parts.unused_rows, 'row')} unused",
        f"{plural(len(members), 'member')} = {plural(len(parts.folds), 'fold')} x "
        f"{plural(config.training.seeds, 'seed')}, "
        f"{config.training.epochs} x {config.training.updates} steps, batch {config.agent.batch_size}",
    ]
    for number, fold in enumerate(parts.folds):
        lines.append(
            f"  fold {number}: train {fold.train_start}..{fold.train_stop - 1}, "
            f"test {fold.test_start}..{fold.test_stop - 1}"
        )
    lines.append(
        f"state {layout.state_dim} = {layout.prefix_dim} stored + {layout.table_dim} from the feature table; "
        f"branches {'x'.join(str(count) for count in layout.actions_per_branch)}, "
        f"{config.agent.num_atoms} atoms"
    )
    return "\n".join(lines)


def memory_lines(config: TrainerConfig, market: MarketData, backend: BackendName, gpu: Gpu | None) -> str:
    """Lists what a training holds, against the free memory of ``gpu`` where it is known.

    Args:
        config: The effective configuration.
        market: Gives the number of bars and of features.
        backend: Which implementation's buffers.
        gpu: Where it would train; None: on the CPU, or on no GPU of this machine.

    Returns:
        A table and, with a GPU, one line of what is free and what fits.

    Raises:
        MemoryPlanError: If it does not fit.
    """
    folds = stack_of(config, market)
    needed = plan_training(config, market, folds, backend)
    lines = [f"memory of the {backend} backend", needed.table()]
    if gpu is not None and gpu.free_mib is not None:
        free = gpu.free_mib * MIB
        fits = what_fits(config, market, folds, backend, free)
        require_fit(needed, free, gpu.name, fits)
        lines.append(f"  {gpu.free_mib} MiB are free on {gpu.name}; {fits}")
    return "\n".join(lines)


def stack_of(config: TrainerConfig, market: MarketData) -> Sequence[Fold]:
    """Returns the fold of every member."""
    folds = split(len(market.bars), config.walk_forward).folds
    return [folds[member.fold] for member in members_of(config, len(folds))]
