import re
from dataclasses import replace

from hpo.report.facts import facts
from hpo.report.findings import find
from hpo.report.records import read_study
from hpo.report.winner import Winner
from trainer.statistics.bootstrap import Interval
from trainer.trial_statistics import Earnings


def found(search):
    record = read_study(search.study, search.directory)
    return find(record, record.best, record.evaluation(record.best.number))


def lines(html):
    """[(name, figure, note)] as a reader sees them."""
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", html)[3:]
    words = [re.sub(r"<[^>]+>", "", cell) for cell in cells]
    return list(zip(*[iter(words)] * 3, strict=True))


def test_score_trials_chance_of_luck_and_buy_and_hold_come_first(search):
    for drift in (0.001, 0.0, -0.001):
        search.add(search.returns(drift))
    winner = Winner(
        Earnings(0.5, 0.123, -0.1), Earnings(-0.25, 0.045, -0.2), None, None, Interval(-0.44, 0.75, 0.95, 3)
    )
    given = replace(found(search), ratio=0.5, started=40, deflated=0.218, luck=0.391, winner=winner)
    given = replace(given, score=replace(given.score, standard_error=0.352, years=8.0))
    assert lines(facts(given, 7)) == [
        (
            "Sharpe ratio, per year",
            "0.50 \N{PLUS-MINUS SIGN} 0.35",
            "trial 7; 95 % interval \N{MINUS SIGN}0.44 to 0.75",
        ),
        ("Trials started", "40", "scored on 8.0 years out of sample"),
        ("Chance that it is luck", "78.2 %", "luck alone shows 0.39 in 40 trials"),
        ("Buy and hold", "\N{MINUS SIGN}0.25", "same bars: 4.5 %; trial 7: 12.3 %"),
    ]


def test_a_single_trial_was_not_selected(search):
    search.add(search.returns(0.001))
    _, trials, luck, _ = lines(facts(found(search), 0))
    assert trials[1] == "1"
    assert luck[2] == "that the true ratio is not above 0"


def test_what_cannot_be_told_is_not_made_up(search):
    search.add(search.returns(0.001))
    given = replace(found(search), winner=None, deflated=None)
    score, _, luck, market = lines(facts(given, 0))
    assert score[2] == "trial 0"
    assert luck[1:] == ("not defined", "see below")
    assert market[1:] == ("not on record", "")
