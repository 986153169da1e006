import json
import re

import numpy as np

from hpo.report.wording import number, percent
from hpo.study import attributes
from hpo.study.study_records import Replication, write_replication
from trainer.statistics.drawdown import max_drawdown


def test_the_verdict_shows_the_best_trial_with_error_and_years(full, full_page):
    best, page = full.study.best_trial, full_page
    result = full.score(full.read(best.number)[None])
    assert f"number {best.number}" in page.text
    assert f"{number(result.value)} ± {number(result.standard_error)}" in page.text
    assert f"{number(450 / 252, 1)} years" in page.text
    assert "13 trials:" in page.text
    assert "11 COMPLETE" in page.text
    assert "1 PRUNED" in page.text
    assert "1 of the COMPLETE degenerate" in page.text
    assert "13 trials were started" in page.text


def test_buy_and_hold_over_the_same_bars_stands_beside_the_policy(full, full_page):
    page = full_page
    market = full.market.ravel()
    assert percent(np.prod(1 + market) - 1) in page.text
    assert percent(max_drawdown(market)) in page.text
    first_fold = np.prod(1 + full.market[0]) - 1
    assert percent(first_fold) in page.text


def test_the_cost_comes_with_the_rate_where_the_starts_of_trials_were_timed(build_study, tmp_path, full_page):
    search = build_study(tmp_path)
    trial = search.study.ask()
    attributes.write_setup(trial, attributes.Setup(2.0, False, 0.0))
    search.study.tell(trial, 0.5)
    assert re.search(r"1 trial, \d+ an hour", search.page().text)
    assert "an hour" not in full_page.text


def test_the_file_loads_nothing_and_stays_below_six_megabytes(full, full_page):
    assert full_page.loads == []
    assert "link" not in full_page.tags
    path = full.directory / "report" / "index.html"
    assert path.stat().st_size < 6_000_000
    style = full.html[full.html.index("<style>") : full.html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert [entry.name for entry in path.parent.iterdir()] == ["index.html"]


def test_a_large_study_stays_below_six_megabytes(search):
    returns = search.returns(0.001)
    search.add(returns)
    for index in range(1200):
        search.add(returns, state="PRUNED", tau=0.5 + index / 4000)
    page = search.page()
    assert (search.directory / "report" / "index.html").stat().st_size < 6_000_000
    assert "The first 1,000 of 1,201 trials." in page.text
    assert "Drawn are the best 400 of 1,201 trials." in page.text


def test_user_strings_are_text_and_never_markup(tmp_path, build_study):
    hostile = "<script>alert('x')</script>&\"<img src=x onerror=y>"
    search = build_study(tmp_path, name=hostile)
    search.add(search.returns(0.001))
    search.add(state="FAIL", reason=hostile)
    page = search.page()
    assert "img" not in page.tags
    assert f"foxtune: {hostile}" in page.text
    assert page.text.count("<script>alert('x')</script>") >= 3  # title, heading, reason
    assert "<script>alert" not in search.html


def test_two_reports_of_the_same_study_are_equal(search):
    search.add(search.returns(0.001))
    path = search.directory / "report" / "index.html"
    search.page()
    first = path.read_bytes()
    search.page()
    assert path.read_bytes() == first


def test_importance_and_slices_come_with_enough_complete_trials(full, full_page):
    for chart in ("importance", "slice-2", "epochs", "equity", "drawdown", "luck", "parallel"):
        assert f'id="{chart}"' in full.html


def test_the_verdict_sets_fresh_seeds_of_the_best_trial_beside_its_score(search):
    search.add(search.returns(0.001))
    write_replication(search.study, Replication("2026-03-03T10:00:00Z", 0, 2, 3, (0.1, 0.3, 0.2)))
    text = search.page().text
    verdict = text[text.index("Verdict") : text.index("Out of sample: trial 0")]
    assert "trained again on 3 seeds" in verdict
    assert "0.20" in verdict


def test_one_trial_has_a_verdict_but_no_slices(search):
    search.add(search.returns(0.002))
    page = search.page()
    assert "Only 1 trial was started" in page.text
    assert "number 0" in page.text
    assert "Importance and slices need 8 COMPLETE trials" in page.text


def test_a_study_of_failures_names_the_commonest_reason(search):
    for reason in ("TD error NaN at step 3, member 0", "killed", "TD error NaN at step 3, member 0"):
        search.add(state="FAIL", reason=reason)
    page = search.page()
    assert "Every trial failed" in page.text
    assert "The commonest reason of failure, 2 times: TD error NaN at step 3, member 0" in page.text
    assert "foxtune train --from-study demo --number 0 --inline --check-finite" in page.text


def test_without_a_complete_trial_there_is_no_result_yet(search):
    search.add(search.returns(0.001), state="PRUNED")
    page = search.page()
    assert "No result yet" in page.text
    assert "1 PRUNED" in page.text


def test_an_empty_study_says_so(search):
    page = search.page()
    assert "No trials yet" in page.text
    assert "foxtune tune --study demo" in page.text


def test_a_degenerate_best_is_never_called_a_result(search):
    search.add(search.flat, trades=0)
    page = search.page()
    assert "No usable score" in page.text
    assert "seed 0: 0 trades, min_trades is 1" in page.text
    assert "Is it luck?" not in page.text


def test_a_degenerate_trial_does_not_hide_a_worse_looking_fair_one(search):
    search.add(search.flat, trades=0)
    search.add(search.returns(-0.02))
    assert "number 1" in search.page().text


def test_an_older_study_without_attributes_is_reported_as_far_as_it_goes(search):
    search.add(search.returns(0.001), record=False)
    page = search.page()
    assert "keeps no details of its score" in page.text
    assert "keeps no configuration" in page.text
    assert "not on record" in page.text


def test_a_torn_evaluation_file_costs_only_what_needs_it(search):
    search.add(search.returns(0.001))
    (search.directory / "trials" / "0000" / "evaluation.parquet").write_bytes(b"torn")
    page = search.page()
    assert "number 0" in page.text
    assert "out-of-sample bars of this trial are not on record" in page.text
    assert percent(np.prod(1 + search.market) - 1) in page.text  # buy and hold stands in the trial's record


def test_the_configuration_marks_searched_keys_and_may_be_kept_as_json_text(search):
    search.config = json.dumps(search.config)
    search.add(search.returns(0.001))
    assert "iql_expectile_tau 0.7 searched" in search.page().text


def test_several_seeds_are_averaged_and_said_so(search):
    search.add(search.returns(0.001, seeds=3))
    page = search.page()
    assert "mean over 3 seeds" in page.text
    assert 'id="seeds"' in search.html


def test_one_seed_has_no_fan(full, full_page):
    assert 'id="seeds"' not in full.html


def test_trials_without_bars_to_compare_are_said_to_count(full_page):
    assert "2 other started trials, stopped early, failed or without bars to compare" in full_page.text
    assert "counted in N = 13 above" in full_page.text
