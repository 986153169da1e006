import socket

import pytest

from hpo.config import RayConfig, SearchConfig
from hpo.search_market import load_market
from hpo.tuner import with_absolute_paths
from trainer.errors import ConfigError


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


def test_in_a_cluster_data_that_is_missing_is_refused_naming_node_and_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    joined = search("data/x.csv").model_copy(update={"ray": RayConfig(address="10.0.0.1:6379")})
    with pytest.raises(ConfigError) as refusal:
        load_market(joined)
    assert str(refusal.value) == (
        f"data.path: {tmp_path}/data/x.csv does not exist on node {socket.gethostname()}, where the search "
        "reads it; put it there, or submit from a folder that holds it"
    )
