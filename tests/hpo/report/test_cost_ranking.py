from dataclasses import replace

import numpy as np
import pytest

from hpo.report.cost_ranking import CostRanking, TrialAtCosts, cost_ranking, ranking_lines, ranking_table
from hpo.report.cost_sweep import no_sweep
from hpo.report.records import read_study
from trainer.evaluation_file import read_evaluation, write_evaluation
from trainer.statistics.sharpe import annualised_sharpe

COSTS = (0.0, 1.0, 2.0, 5.0, 10.0)


def ranking(*ratios):
    """Trials 7, 8, ... with their ratios at 0, 1, 2, 5 and 10 basis points."""
    return CostRanking(COSTS, tuple(TrialAtCosts(7 + index, each, 4.0) for index, each in enumerate(ratios)))


def test_a_winner_that_leads_everywhere_survives():
    found = ranking((0.9, 0.8, 0.7, 0.4, 0.1), (0.5, 0.5, 0.5, 0.4, 0.0))
    assert found.leaders == (7, 7, 7, 7, 7)  # at 5 basis points they are equal
    assert found.sentence == (
        "The choice survives: of the best 2 trials, trial 7 has the highest ratio at all these costs."
    )


def test_a_winner_that_trades_much_loses_its_place_at_higher_costs():
    found = ranking((0.9, 0.8, 0.7, 0.1, -0.9), (0.5, 0.5, 0.5, 0.4, 0.3), (0.0, 0.0, 0.0, 0.0, 0.0))
    assert found.leaders == (7, 7, 7, 8, 8)
    assert found.sentence == (
        "The choice depends on the costs: of the best 3 trials, trial 7 at 0 to 2 bp and trial 8 at "
        "5 to 10 bp has the highest ratio."
    )


def test_page_and_terminal_show_a_line_per_cost_and_a_column_per_trial():
    found = ranking((0.9, 0.8, 0.7, 0.1, -0.9), (0.5, 0.5, 0.5, 0.4, 0.3))
    html = ranking_table(found)
    assert "<td>2</td><td><b>0.70</b></td><td>0.50</td>" in html
    assert "<td>10</td><td>\N{MINUS SIGN}0.90</td><td><b>0.30</b></td>" in html
    lines = ranking_lines(found)
    assert lines[1].split() == ["cost,", "bp", "trial", "7", "trial", "8"]
    assert lines[6].split() == ["10", "-0.900", "0.300"]
    assert lines[7].split() == ["breaks", "even", "4", "bp", "4", "bp"]


def test_the_best_five_complete_trials_are_scored_from_their_stored_positions(search):
    for drift in (0.0, 0.001, 0.0005, -0.0005, 0.002, -0.001):
        search.add(search.returns(drift))
    search.add(search.flat, trades=0)  # degenerate
    search.add(search.returns(0.01), state="PRUNED")
    record = read_study(search.study, search.directory)
    found = cost_ranking(record, record.best, [2.0, 0.0, 2.0], 252.0)
    by_value = sorted(range(6), key=lambda number: -search.study.trials[number].value)
    assert [each.number for each in found.trials] == by_value[:5]
    assert found.costs == (0.0, 2.0)
    for each in found.trials:  # the trials were scored at 2 basis points and paid 1e-5 on every bar
        returns = search.read(each.number).ravel()
        assert each.ratios[1] == pytest.approx(annualised_sharpe(returns, 252.0), rel=1e-9)
        assert each.ratios[0] == pytest.approx(annualised_sharpe(returns + 1e-5, 252.0), rel=1e-6)


def test_one_trial_has_no_ranking(search):
    search.add(search.returns(0.001))
    record = read_study(search.study, search.directory)
    assert cost_ranking(record, record.best, COSTS, 252.0) is None


def test_the_page_says_why_it_has_no_other_costs_and_what_to_do(search):
    search.add(search.returns(0.001))
    path = search.directory / "trials" / "0000" / "evaluation.parquet"
    rows = read_evaluation(path)
    write_evaluation(path, replace(rows, cost=np.full(rows.cost.size, np.nan)))
    text = search.page().text
    assert "evaluation.parquet of trial 0 is older than its columns of costs" in text
    runs = search.directory.parent
    assert f"foxtune replay demo --number 0 --runs {runs} --out {path.parent}" in text
    path.write_bytes(b"torn")
    assert f"trial 0 has no readable evaluation.parquet in {path.parent}" in search.page().text


def test_contracts_without_costs_are_told_apart(search):
    search.config = {**search.config, "data": {**search.config["data"], "returns": "difference"}}
    search.config["environment"] = {
        **search.config["environment"], "fee_bp": 0.0, "half_spread_bp": 0.0, "slippage_bp": 0.0
    }  # fmt: skip
    search.add(search.returns(0.001))
    record = read_study(search.study, search.directory)
    reason = no_sweep(record, record.best, record.evaluation(0))
    assert reason.startswith("trial 0 was trained on contracts (data.returns = difference) without costs")
    assert no_sweep(record, None, None) == "no trial is COMPLETE; let one run to its end"
