import json
import re
from dataclasses import asdict, fields
from html.parser import HTMLParser

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial

from hpo.benchmarks.large_study import trial_record
from hpo.report import write_report
from trainer.config import TrainerConfig
from trainer.evaluation_file import EvaluationRows, read_evaluation, write_evaluation
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


def stored(values):
    """Values that the file of bars keeps to the last bit."""
    return values.astype(np.float32).astype(np.float64)


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
        self.market = stored(self.generator.normal(0.0003, 0.01, (FOLDS, BARS)))
        self.flat = np.zeros((1, FOLDS, BARS))
        self.config = CONFIG

    def returns(self, drift, seeds=1):
        noise = self.generator.normal(drift, 0.008, (seeds, FOLDS, BARS))
        return stored(noise + 0.2 * self.market)

    def score(self, returns, trades=12):
        members = [
            MemberOutcome(seed, fold, returns[seed, fold], self.market[fold], trades, 7.5, False)
            for seed in range(len(returns))
            for fold in range(FOLDS)
        ]
        return score(members, objective="wf_sharpe", min_trades=1, periods_per_year=YEAR)

    def add(
        self, returns=None, state="COMPLETE", reason=None, trades=12, tau=0.7, record=True, keep=None, shift=0
    ):
        number = len(self.study.get_trials(deepcopy=False))
        attributes = {"config": self.config} if record else {}
        values, value = {}, None
        if returns is not None:
            result = self.score(returns, trades)
            values = {epoch: result.value - 1.0 / epoch for epoch in (1, 2)} | {3: result.value}
            if record:
                attributes["score"] = json.loads(json.dumps(asdict(result)))
            value = result.value if state == "COMPLETE" else None
            if state == "COMPLETE" and record and keep is None:
                attributes["statistics"] = json.loads(json.dumps(asdict(trial_record(returns, self.market))))
            if state == "COMPLETE" and record:
                self.write(number, returns, keep or slice(None), shift)
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

    def write(self, number, returns, keep, shift):
        seeds = len(returns)
        shape = (seeds, FOLDS, BARS)
        seed, fold, bar = np.meshgrid(*map(np.arange, shape), indexing="ij")
        folder = self.directory / "trials" / f"{number:04d}"
        folder.mkdir(parents=True)
        rows = EvaluationRows(
            seed=seed.ravel(),
            fold=fold.ravel(),
            time=((fold * BARS + bar).ravel() + 14_600 + shift) * DAY,
            ret=returns.ravel(),
            position=np.sign(returns).ravel(),
            benchmark=np.broadcast_to(self.market, shape).ravel(),
            cost=np.full(returns.size, 1e-5),
            impact=np.zeros(returns.size),
        )
        rows = EvaluationRows(*(getattr(rows, field.name)[keep] for field in fields(rows)))
        write_evaluation(folder / "evaluation.parquet", rows)

    @property
    def html(self):
        """The file as text."""
        return (self.directory / "report" / "index.html").read_text(encoding="utf-8")

    def read(self, trial):
        """Returns [folds, bars] of a trial of one seed, from its file."""
        path = self.directory / "trials" / f"{trial:04d}" / "evaluation.parquet"
        return read_evaluation(path).ret.reshape(FOLDS, BARS)

    def page(self):
        """Writes the report and reads it as a browser would."""
        path = write_report(self.study, self.directory, self.directory / "report" / "index.html")
        return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def build_study():
    return Search


@pytest.fixture
def search(tmp_path):
    return Search(tmp_path)


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """Ten ordinary trials, one pruned, one failed, one degenerate."""
    search = Search(tmp_path_factory.mktemp("full"))
    for index in range(10):
        search.add(search.returns(0.0001 * index), tau=0.5 + 0.04 * index)
    search.add(search.returns(0.0), state="PRUNED")
    search.add(state="FAIL", reason="out of memory")
    search.add(search.flat, trades=0)
    return search


@pytest.fixture(scope="session")
def full_page(full):
    return full.page()
