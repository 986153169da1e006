"""The tables of foxtune bench: their form, their head, and what a machine without a GPU gets."""

import datetime
import math
import re
import subprocess

import pytest
import torch

from hpo.__main__ import main
from trainer.benchmarks import machine, peers, reference_cpu
from trainer.benchmarks.markdown import markdown_table
from trainer.benchmarks.sections import sections
from trainer.benchmarks.step_shapes import Shape
from trainer.errors import ConfigError, FoxtuneError


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def quick(monkeypatch):
    """The reference's table with one row of one block."""
    monkeypatch.setattr(reference_cpu, "STACKS", (1,))
    monkeypatch.setattr(reference_cpu, "BLOCKS", 1)


def test_a_table_has_a_line_for_the_head_the_rule_and_each_row():
    assert markdown_table(["M", "us"], [["1", "215"], ["15", "480"]]) == (
        "| M | us |\n| --- | --- |\n| 1 | 215 |\n| 15 | 480 |"
    )


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"len\(row\) == len\(head\)"):
        markdown_table(["M", "us"], [["1"]])


def test_the_head_names_date_processor_and_versions(without_gpu):
    told = machine.describe()
    today = datetime.datetime.now(datetime.UTC).date()
    assert str(today) in told or str(today - datetime.timedelta(days=1)) in told
    assert f"torch {torch.__version__}" in told
    assert "processor: " in told
    assert "GPU" not in told


def test_in_a_checkout_the_commit_is_named_and_marked_where_files_differ(without_gpu, tmp_path, monkeypatch):
    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "file").write_text("one")
    git("init")
    git("add", "file")
    git("commit", "-m", "first")
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert re.search(r", commit [0-9a-f]{7,}\n", machine.describe())
    (tmp_path / "file").write_text("two")
    assert re.search(r", commit [0-9a-f]{7,}-dirty\n", machine.describe())


def test_outside_a_checkout_no_commit_is_named(without_gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert "commit" not in machine.describe()


def test_the_drivers_version_is_read_from_its_own_line(tmp_path, monkeypatch):
    file = tmp_path / "version"
    file.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n")
    monkeypatch.setattr(machine, "DRIVER", file)
    assert machine._driver() == "580.159.04"
    monkeypatch.setattr(machine, "DRIVER", tmp_path / "absent")
    assert machine._driver() == "unknown"


def test_a_machine_without_a_gpu_gets_the_references_table_and_the_reason(without_gpu, quick, capsys):
    assert main(["bench"]) == 0
    told = capsys.readouterr().out
    assert "| members | batch | ms per step | member-steps/s |" in told
    row = re.search(r"^\| 1 \| 256 \| ([\d.]+) \| (\d+) \|$", told, re.MULTILINE)
    assert row is not None
    assert float(row[1]) * float(row[2]) == pytest.approx(1000, rel=0.05)
    assert "The GPU's tables are left out: backend reference on the CPU (0 GPUs visible)" in told


def test_peers_without_a_gpu_are_refused_before_anything_is_measured(without_gpu, monkeypatch):
    monkeypatch.setattr(reference_cpu, "table", pytest.fail)
    with pytest.raises(ConfigError, match="--peers: needs a GPU"):
        next(sections(peers=True))


def test_one_table_is_measured_on_demand_and_an_unknown_one_is_refused(without_gpu, quick, monkeypatch):
    told = list(sections(peers=False, only="reference"))
    assert [section.startswith("## Reference") for section in told] == [False, True, False]
    monkeypatch.setattr(reference_cpu, "table", pytest.fail)
    assert len(list(sections(peers=False, only="trial"))) == 2
    with pytest.raises(ConfigError, match=r"--only: must be one of reference, step, .*, but got 'steps'"):
        next(sections(peers=False, only="steps"))


def test_a_peer_counts_as_there_when_all_that_it_imports_is(monkeypatch):
    monkeypatch.setattr(peers, "PEERS", {"torch": ("torch",), "other": ("torch", "no_such_package")})
    assert peers.available_peers() == ["torch"]


def test_a_peer_that_fails_is_a_users_error_in_one_sentence():
    with pytest.raises(FoxtuneError, match=r"peer trainer\.benchmarks\.peer_absent ended with code 1"):
        peers.peer_times(["absent"])


@pytest.mark.gpu
def test_the_kernels_of_a_step_are_listed_with_their_times():
    from trainer.benchmarks import kernel_times

    times = {each.name: each for each in kernel_times.measure(Shape(2, 64, 2**15), "bf16")}
    for name in ("priority_sums", "replay_sample", "c51_iql_step", "gradient_norm", "accept_step"):
        assert times[name].launches == 1.0
        assert 0.0 < times[name].microseconds < 1e4
    assert times["adamw_step"].launches == 2.0


@pytest.mark.gpu
def test_the_fused_tables_measure_steps_collections_and_evaluations(monkeypatch):
    from trainer.benchmarks import fused_market, fused_step

    monkeypatch.setattr(fused_step.shapes, "SHAPES", (Shape(2, 64, 2**15),))
    monkeypatch.setattr(fused_market, "STACKS", ((1, 1),))
    alone = fused_step.table({}).splitlines()
    assert alone[0] == "| M, B | bf16, us | tf32, us | fp32, us |"
    beside = fused_step.table({("jax", 2, 64): 1e6}).splitlines()
    assert beside[0].endswith("| jax (peer), us | fastest peer / bf16 |")
    assert float(beside[2].split(" | ")[-1].rstrip(" |")) > 1.0
    figures = [float(cell.replace(",", "")) for cell in fused_market.table().splitlines()[2].split("|")[1:-1]]
    assert all(math.isfinite(figure) and figure > 0 for figure in figures)
