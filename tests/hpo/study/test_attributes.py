"""What a trial's record says of its bars, and of its end."""

import optuna
import pytest
from fake_training import fake_report

from hpo.study.attributes import DEGENERATE, DataRecord, write_end
from trainer.config import TrainerConfig
from trainer.data.market import load_market


def test_the_record_names_the_bars_their_number_and_their_ends():
    path = "synthetic:no_signal:100:7"
    market = load_market(TrainerConfig().with_overrides({"data.path": path}))
    record = DataRecord.of(market, path)
    assert (record.name, record.path, record.hash) == (path, path, market.data_hash)
    assert (record.rows, record.first, record.last) == (100, "2000-01-01T00:00:00Z", "2000-01-05T03:00:00Z")
    assert record.periods_per_year == market.periods_per_year


@pytest.mark.parametrize(("degenerate", "violation"), [((), -1.0), (("no trades",), 1.0)])
def test_the_end_of_a_trial_can_be_written_again_by_the_next_driver(degenerate, violation):
    study = optuna.create_study()
    trial = study.ask()
    score = fake_report(0.1, 3, 3, degenerate).score
    write_end(trial, score)  # by a driver that is killed before the trial's state changes
    write_end(optuna.Trial(study, trial._trial_id), score)
    assert study.trials[0].constraints == {DEGENERATE: violation}
