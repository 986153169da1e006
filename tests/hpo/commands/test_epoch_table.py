"""The line that `foxtune train` prints for an epoch."""

from dataclasses import replace

from hpo.commands.epoch_table import header, line
from trainer.reports import EpochReport, FoldScore, LearningReport, WalkForwardScore

FOLD = FoldScore(0, 0, 0.5, True, 3, 0.01, 40, 2.0, False)
LEARNING = LearningReport(1.25, 0.5, 0.125, 1.0, 0.0, 0, 0.0, 1.0)
SCORE = WalkForwardScore(1.0, 0.25, ((0, 1.0),), 0.0, (FOLD, replace(FOLD, fold=1, sharpe=-1.5)), 0, (), 1.0)
REPORT = EpochReport(2, 9, SCORE, LEARNING, 3.5)


def test_an_epoch_stands_below_the_column_titles():
    title, text = header(2), line(REPORT, 2)
    assert " ".join(title.split()) == "epoch critic value V gap fold 0 fold 1 wf_sharpe seconds"
    assert " ".join(text.split()) == "2/9 1.2500 0.5000 0.1250 0.50 -1.50 1.000 +- 0.250 3.5"
    assert len(text) == len(title)


def test_skipped_steps_and_a_degenerate_score_are_said_behind_the_columns():
    skipped = replace(REPORT, learning=replace(LEARNING, skipped_steps=7))
    assert line(skipped, 2) == f"{line(REPORT, 2)}  skipped steps: 7"
    both = replace(skipped, score=replace(SCORE, degenerate=("seed 0: 0 trades, min_trades is 1",)))
    assert line(both, 2) == f"{line(REPORT, 2)}  skipped steps: 7  degenerate"
