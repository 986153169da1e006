"""A training small enough for a test, and a way to run commands in a folder of their own."""

import shutil
from argparse import ArgumentParser

import pytest

from hpo.__main__ import main
from hpo.commands.config_flags import TRAINING_FLAGS, add_flags, effective_from
from hpo.config import SearchConfig
from hpo.storage.storages import open_storage
from hpo.study import attributes
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create
from search_spaces import packaged
from trainer.data.market import load_market
from trainer.training import run_training

SMALL = {
    "episodes": 2,
    "episode_length": 16,
    "batch_size": 16,
    "capacity": 64,
    "trunk_widths": "8",
    "head_width": 8,
    "num_atoms": 5,
    "updates": 2,
}


@pytest.fixture
def small() -> list[str]:
    """Flags of a training that takes a fraction of a second."""
    return small_flags()


def small_flags() -> list[str]:
    words = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    return ["--data", "synthetic:known_answer:400:1", "--epochs", "2", "--folds", "3", *words]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command line in an empty folder without GPUs; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def running(*words: str) -> tuple[int, str, str]:
        code = main(words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return running


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """(search, market, result, folder) of one training, done once for all tests."""
    parser = ArgumentParser()
    add_flags(parser, TRAINING_FLAGS)
    words = (*small_flags(), "--gpus-per-trial", "0")
    config = effective_from(parser.parse_args(words), TRAINING_FLAGS).config
    search = config.model_copy(update={"study": "s", "trials": 3})
    market = load_market(search.trainer)
    folder = tmp_path_factory.mktemp("trained")
    return search, market, run_training(search.trial_trainer, market, folder), folder


@pytest.fixture
def study(run, trained):
    """A study "s" in runs/: trial 0 as trained, with weights; trial 1 with other scores; trial 2 failed."""
    search, market, result, folder = trained
    directory = RunDirectory.of(search)
    storage = open_storage(directory.storage_url(search))
    definition = StudyDefinition.of(search, packaged()["iql_her"], market.data_hash)
    made = create(storage, "s", definition, directory)
    directory.write_search(search)
    shutil.copytree(folder, directory.trial(0))
    data = attributes.DataRecord.of(market, search.trainer.data.path)
    for falsified in (0.0, 1.0):
        add_trial(made, search, data, result, falsified)
    failed = made.ask()
    attributes.write_start(failed, search.trial_trainer, data)
    made.tell(failed, state=attributes.TrialState.FAIL)
    return made


def add_trial(study, search: SearchConfig, data, result, falsified):
    trial = study.ask()
    trial.suggest_float("gamma", 0.9, 0.99)
    attributes.write_start(trial, search.trial_trainer, data)
    for report in result.reports:
        attributes.write_epoch(trial, report.score, report.learning, report.seconds)
        trial.report(report.score.value - falsified, report.epoch)
    attributes.write_end(trial, result.score)
    study.tell(trial, result.score.value - falsified)
