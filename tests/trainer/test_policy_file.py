"""Policy files: which models are taken, and that an export holds all that a policy needs."""

import pytest
import torch

from trainer.checkpoint import read_checkpoint, write_checkpoint
from trainer.errors import CheckpointError
from trainer.file_names import WEIGHTS
from trainer.members import Member
from trainer.policy_file import KEYS, read_policy, write_policy


@pytest.fixture(scope="module")
def weights(random_market, train_tiny):
    return train_tiny(random_market(300), seeds=2, seed=4) / WEIGHTS


def test_the_last_folds_model_of_every_seed_is_taken_with_its_scaler(weights):
    state, policy = read_checkpoint(weights), read_policy(weights)
    assert state["members"] == [(4, 0), (4, 1), (4, 2), (5, 0), (5, 1), (5, 2)]
    assert policy.members == (Member(4, 2), Member(5, 2))
    assert torch.equal(policy.weights["q"], state["agent"]["q"][[2, 5]])
    assert torch.equal(policy.weights["value"], state["agent"]["value"][[2, 5, 8, 11]])
    assert torch.equal(policy.center, state["scaler"]["center"][[2, 5]])
    assert torch.equal(policy.inverse_scale, state["scaler"]["inverse_scale"][[2, 5]])
    assert torch.equal(policy.sigma, state["sigma"][[2, 5]])
    assert state["sigma"].dtype == policy.sigma.dtype == torch.float64


def test_an_export_read_back_is_the_policy(weights, tmp_path):
    policy = read_policy(weights)
    path = tmp_path / "folder" / "model.pt"
    write_policy(path, policy, {"study": "s", "trial": 3, "value": 0.5}, {"torch": "2.13"})
    again = read_policy(path)
    assert (again.config, again.members, again.data_hash) == (policy.config, policy.members, policy.data_hash)
    assert (again.fill, again.feature_names) == ("next_open", policy.feature_names)
    assert again.feature_version == policy.feature_version
    assert again.step == policy.step == 86_400
    assert all(torch.equal(block, policy.weights[name]) for name, block in again.weights.items())
    assert torch.equal(again.center, policy.center)
    assert torch.equal(again.inverse_scale, policy.inverse_scale)
    assert torch.equal(again.sigma, policy.sigma)
    plain = torch.load(path, weights_only=True)
    assert set(plain) == {"format", "step", "origin", "versions", *KEYS}
    assert plain["origin"] == {"study": "s", "trial": 3, "value": 0.5}
    assert path.stat().st_size < weights.stat().st_size


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(CheckpointError, match="there is none; see `foxtune export`"):
        read_policy(tmp_path / "none.pt")


def test_a_torn_file_is_refused(tmp_path):
    path = tmp_path / "torn.pt"
    path.write_bytes(b"PK\x03\x04torn")
    with pytest.raises(
        CheckpointError, match=r"not a whole checkpoint .*write it again, see `foxtune export`"
    ):
        read_policy(path)


def test_a_tensor_is_no_policy(tmp_path):
    torch.save(torch.zeros(1), tmp_path / "tensor.pt")
    with pytest.raises(CheckpointError, match="format None, this version reads 1"):
        read_policy(tmp_path / "tensor.pt")


def test_weights_of_before_the_step_was_kept_are_read(weights, tmp_path):
    state = read_checkpoint(weights)
    del state["step"]
    write_checkpoint(tmp_path / "old.pt", state)
    assert read_policy(tmp_path / "old.pt").step is None


def test_weights_without_the_fill_are_refused_with_the_way_to_new_ones(weights, tmp_path):
    state = read_checkpoint(weights)
    del state["fill"]
    write_checkpoint(tmp_path / "old.pt", state)
    with pytest.raises(CheckpointError, match=rf"it lacks fill; train it again .* --out {tmp_path}"):
        read_policy(tmp_path / "old.pt")
