"""foxtune report --costs: the stored positions of a trained trial at other costs, printed and on the page."""

import re
import shutil

import pyarrow.parquet as parquet
import pytest

from hpo.study.attributes import read_score

COSTS = "0,1,2,5,10"


@pytest.fixture
def bars(study, tmp_path):
    """The file of trial 0's bars."""
    return tmp_path / "runs" / "s" / "trials" / "0000" / "evaluation.parquet"


def sweep_of(printed):
    """{cost: (ratio, total return in percent)} of the winner's lines."""
    found = re.findall(r"^ +([\d.]+) +(-?[\d.]+) \+- [\d.]+ +(-?[\d.]+)%", printed, re.MULTILINE)
    return {float(cost): (float(ratio), float(total)) for cost, ratio, total in found}


def test_the_positions_of_a_trained_trial_are_scored_at_every_cost(run, study, bars):
    shutil.copytree(bars.parent, bars.parents[1] / "0001")
    code, out, err = run("report", "s", "--costs", COSTS)
    assert (code, err) == (0, "")
    assert "trial 0 at other costs, its positions unchanged" in out
    swept = sweep_of(out)
    assert sorted(swept) == [0.0, 1.0, 2.0, 5.0, 10.0]
    ((_, sharpe),) = read_score(study.trials[0]).per_seed
    assert swept[2.0][0] == pytest.approx(sharpe, abs=6e-4)  # fee 1 and half spread 1: the trial's own cost
    (own,) = (line for line in out.splitlines() if line.endswith("the trial's own"))
    assert own.split()[0] == "2"
    returns = [swept[cost][1] for cost in sorted(swept)]
    assert returns == sorted(returns, reverse=True)
    assert returns[0] > returns[-1]
    assert "trial 0    trial 1" in out
    assert "trial 0 has the highest ratio at all these costs" in out
    page = (bars.parents[2] / "report.html").read_text(encoding="utf-8")
    assert "The best trials at the same costs" in page
    assert "trial 0 has the highest ratio at all these costs" in page


def test_a_trial_without_others_on_record_is_swept_alone(run, study):
    code, out, _ = run("report", "s", "--costs", "0,20")
    assert code == 0
    assert sorted(sweep_of(out)) == [0.0, 2.0, 20.0]
    assert "the best trials" not in out


def test_bars_older_than_the_costs_name_the_command_that_writes_them_again(run, study, bars):
    parquet.write_table(parquet.read_table(bars).drop_columns(["cost", "impact"]), bars)
    code, _, err = run("report", "s", "--costs", COSTS)
    assert code == 2
    assert "--costs: evaluation.parquet of trial 0 is older than its columns of costs; write it" in err
    command = re.search(r"foxtune (replay s --number 0 --out \S+0000)", err)
    code, out, _ = run(*command[1].split())
    assert code == 0
    assert "equal bit for bit" in out
    code, out, _ = run("report", "s", "--costs", COSTS)
    assert code == 0
    assert len(sweep_of(out)) == 5
