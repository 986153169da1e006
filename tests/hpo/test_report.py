import json
import re
from dataclasses import asdict
from html.parser import HTMLParser

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial

from hpo.report import write_report
from hpo.report.charts import thinned
from hpo.report.wording import number, percent, probability
from trainer.config import TrainerConfig
from trainer.evaluation_file import EvaluationRows, write_evaluation
from trainer.statistics.drawdown import max_drawdown
from trainer.walk_forward import MemberOutcome, score

DAY = 86_400_000_000_000
YEAR = 252.0
FOLDS, BARS = 3, 150
CONFIG = TrainerConfig().model_dump(mode="json")
DISTRIBUTIONS = {
    "iql_expectile_tau": FloatDistribution(0.5, 0.95),
    "iql_advantage_temperature": FloatDistribution(1, 30, log=True),
    "her_strategy": CategoricalDistribution(["final", "future"]),
}


class Page(HTMLParser):
    """Collects what a browser would load or show."""

    def __init__(self, html):
        super().__init__()
        self.loads, self.tags, self.words, self._skip = [], [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        values = dict(attributes)
        if tag in ("script", "style"):
            self._skip = tag
        if tag in ("script", "link", "img", "iframe", "source", "object", "embed"):
            self.loads += [values[name] for name in ("src", "href", "data") if name in values]

    def handle_endtag(self, tag):
        if tag == self._skip:
            self._skip = None

    def handle_data(self, data):
        if self._skip is None and data.strip():
            self.words.append(data.strip())

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


class Search:
    """A study in memory and the folder that belongs to it."""

    def __init__(self, directory, name="demo"):
        self.directory = directory
        self.study = optuna.create_study(study_name=name, direction="maximize")
        self.generator = np.random.default_rng(0)
        self.market = self.generator.normal(0.0003, 0.01, (FOLDS, BARS))

    def returns(self, drift, seeds=1):
        noise = self.generator.normal(drift, 0.008, (seeds, FOLDS, BARS))
        return noise + 0.2 * self.market

    def score(self, returns, trades=12):
        members = [
            MemberOutcome(seed, fold, returns[seed, fold], self.market[fold], trades, 7.5, False)
            for seed in range(len(returns))
            for fold in range(FOLDS)
        ]
        return score(members, objective="wf_sharpe", min_trades=1, periods_per_year=YEAR)

    def add(self, returns=None, state="COMPLETE", reason=None, trades=12, tau=0.7, record=True):
        number = len(self.study.get_trials(deepcopy=False))
        attributes = {"config": CONFIG} if record else {}
        values, value = {}, None
        if returns is not None:
            result = self.score(returns, trades)
            values = {epoch: result.value - 1.0 / epoch for epoch in (1, 2)} | {3: result.value}
            if record:
                attributes["score"] = json.loads(json.dumps(asdict(result)))
            value = result.value if state == "COMPLETE" else None
            if state == "COMPLETE" and record:
                self.write(number, returns)
        if reason is not None:
            attributes["reason"] = reason
        temperature = float(1 + number % 29)
        self.study.add_trial(
            create_trial(
                state=TrialState[state],
                value=value,
                params={
                    "iql_expectile_tau": tau,
                    "iql_advantage_temperature": temperature,
                    "her_strategy": ("final", "future")[number % 2],
                },
                distributions=DISTRIBUTIONS,
                user_attrs=attributes,
                intermediate_values=values,
            )
        )

    def write(self, number, returns):
        seeds = len(returns)
        shape = (seeds, FOLDS, BARS)
        seed, fold, bar = np.meshgrid(*map(np.arange, shape), indexing="ij")
        folder = self.directory / "trials" / f"{number:04d}"
        folder.mkdir(parents=True)
        rows = EvaluationRows(
            seed=seed.ravel(),
            fold=fold.ravel(),
            time=((fold * BARS + bar).ravel() + 14_600) * DAY,
            ret=returns.ravel(),
            position=np.sign(returns).ravel(),
            benchmark=np.broadcast_to(self.market, shape).ravel(),
        )
        write_evaluation(folder / "evaluation.parquet", rows)

    def page(self):
        """Writes the report and reads it as a browser would."""
        path = write_report(self.study, self.directory, self.directory / "report" / "index.html")
        return Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def search(tmp_path):
    return Search(tmp_path)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    search = Search(tmp_path_factory.mktemp("full"))
    for index in range(10):
        search.add(search.returns(0.0001 * index), tau=0.5 + 0.04 * index)
    search.add(search.returns(0.0), state="PRUNED")
    search.add(state="FAIL", reason="out of memory")
    search.add(np.zeros((1, FOLDS, BARS)), trades=0)
    return search


@pytest.fixture(scope="module")
def full_page(full):
    return full.page()


@pytest.fixture(scope="module")
def full_html(full, full_page):
    return (full.directory / "report" / "index.html").read_text(encoding="utf-8")


def test_the_verdict_shows_the_best_trial_with_error_and_years(full, full_page):
    best, page = full.study.best_trial, full_page
    result = full.score(np.stack([read_returns(full, best.number)]))
    assert f"number {best.number}" in page.text
    assert f"{number(result.value)} ± {number(result.standard_error)}" in page.text
    assert f"{number(450 / 252, 1)} years" in page.text
    assert "13 trials:" in page.text
    assert "11 COMPLETE" in page.text
    assert "1 PRUNED" in page.text
    assert "1 of the COMPLETE degenerate" in page.text
    assert "13 trials were started" in page.text


def read_returns(search, trial):
    from trainer.evaluation_file import read_evaluation

    path = search.directory / "trials" / f"{trial:04d}" / "evaluation.parquet"
    return read_evaluation(path).ret.reshape(FOLDS, BARS)


def test_buy_and_hold_over_the_same_bars_stands_beside_the_policy(full, full_page):
    page = full_page
    market = full.market.ravel()
    assert percent(np.prod(1 + market) - 1) in page.text
    assert percent(max_drawdown(market)) in page.text
    first_fold = np.prod(1 + full.market[0]) - 1
    assert percent(first_fold) in page.text


def test_the_file_loads_nothing_and_stays_below_six_megabytes(full, full_page, full_html):
    assert full_page.loads == []
    assert "link" not in full_page.tags
    path = full.directory / "report" / "index.html"
    assert path.stat().st_size < 6_000_000
    style = full_html[full_html.index("<style>") : full_html.index("</style>")]
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
    assert "801 are left out" in page.text


def test_user_strings_are_text_and_never_markup(tmp_path):
    hostile = "<script>alert('x')</script>&\"<img src=x onerror=y>"
    search = Search(tmp_path, name=hostile)
    search.add(search.returns(0.001))
    search.add(state="FAIL", reason=hostile)
    page = search.page()
    assert "img" not in page.tags
    assert f"foxtune: {hostile}" in page.text
    assert page.text.count("<script>alert('x')</script>") >= 3  # title, heading, reason
    html = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "<script>alert" not in html


def test_two_reports_of_the_same_study_are_equal(search):
    search.add(search.returns(0.001))
    path = search.directory / "report" / "index.html"
    search.page()
    first = path.read_bytes()
    search.page()
    assert path.read_bytes() == first


def test_importance_and_slices_come_with_enough_complete_trials(full_html):
    for chart in ("importance", "slice-2", "epochs", "equity", "drawdown"):
        assert f'id="{chart}"' in full_html


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
    search.add(np.zeros((1, FOLDS, BARS)), trades=0)
    page = search.page()
    assert "No usable score" in page.text
    assert "seed 0: 0 trades, min_trades is 1" in page.text
    assert "Is it luck?" not in page.text


def test_a_degenerate_trial_does_not_hide_a_worse_looking_fair_one(search):
    search.add(np.zeros((1, FOLDS, BARS)), trades=0)
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
    assert "out-of-sample bars are not on record" in page.text


def test_the_configuration_marks_searched_keys_and_may_be_kept_as_json_text(search, monkeypatch):
    search.add(search.returns(0.001))
    assert "iql_expectile_tau 0.7 searched" in search.page().text
    text = Search(search.directory / "text")
    monkeypatch.setitem(globals(), "CONFIG", json.dumps(CONFIG))
    text.add(text.returns(0.001))
    assert "iql_expectile_tau 0.7 searched" in text.page().text


def test_several_seeds_are_averaged_and_said_so(search):
    search.add(search.returns(0.001, seeds=3))
    page = search.page()
    assert "mean over 3 seeds" in page.text


def test_thinning_keeps_ends_and_extremes():
    values = np.sin(np.arange(10_000) / 500)
    values[[1234, 8765]] = 9.0, -9.0
    kept = thinned(values, 200)
    assert kept.size <= 202
    assert {0, 1234, 8765, 9999} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


def test_numbers_carry_a_true_minus_and_no_negative_zero():
    assert number(-1.234) == "\N{MINUS SIGN}1.23"
    assert number(-0.001) == "0.00"
    assert number(None) == "not defined"
    assert percent(0.0123) == "1.2 %"
    assert probability(1.0) == "&gt; 99.9 %"
    assert probability(0.9003968) == "90.0 %"
