import pytest

from hpo.config import SearchConfig
from hpo.tuner import with_absolute_paths


def search(path):
    return SearchConfig.model_validate({"study": "s", "trainer": {"data": {"path": path}}})


def test_a_data_file_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bars.csv").write_text("")
    assert with_absolute_paths(search("bars.csv")).trainer.data.path == str(tmp_path / "bars.csv")


@pytest.mark.parametrize("name", ["sp500", "nasdaq", "known_answer"])
def test_a_named_market_wins_over_a_file_of_its_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("")
    assert with_absolute_paths(search(name)).trainer.data.path == name


def test_the_folder_of_runs_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert with_absolute_paths(search("sp500")).runs == str(tmp_path / "runs")
