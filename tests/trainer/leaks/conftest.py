"""The S&P 500 and its folds, for all guards."""

import pytest

from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.folds import split


@pytest.fixture(scope="session")
def sp500_config():
    return TrainerConfig().with_overrides({"data.path": "sp500"})


@pytest.fixture(scope="session")
def market(sp500_config):
    return load_market(sp500_config)


@pytest.fixture(scope="session")
def folds(market, sp500_config):
    return split(len(market.bars), sp500_config.walk_forward)
