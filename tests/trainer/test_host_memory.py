"""The memory of the machine, or of the container, as the limit of a training on the CPU."""

import os

import pytest

from trainer import host_memory as module
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.errors import MemoryPlanError
from trainer.host_memory import host_memory
from trainer.training import run_training

GIB = 2**30
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("max\n", MACHINE), (f"{GIB}\n", GIB), (f"{2**62}\n", MACHINE), (None, MACHINE)],
)
def test_a_container_s_limit_counts_where_it_is_below_the_machine_s_memory(
    tmp_path, monkeypatch, limit, expected
):
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(limit)
    monkeypatch.setattr(module, "CONTAINER_LIMIT", file)
    assert host_memory() == expected


def test_a_training_beyond_the_memory_of_the_machine_is_refused_before_it_allocates(tmp_path, monkeypatch):
    # Linux promises memory that it does not have, and kills the process that uses it.
    monkeypatch.setattr("trainer.planned_training.host_memory", lambda: 64 * 2**20)
    config = TrainerConfig().with_overrides(
        {"data.path": "synthetic:known_answer:600:1", "episode_length": 16, "backend": "reference"}
    )
    with pytest.raises(MemoryPlanError) as caught:
        run_training(config, load_market(config), tmp_path)
    assert ", but 64 MiB are free on this machine where nothing else runs (biggest: " in str(caught.value)
    assert "what fits: agent.batch_size = " in str(caught.value)
    assert list(tmp_path.iterdir()) == []
