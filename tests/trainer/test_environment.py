"""What every environment promises, asked of each of them."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trainer.bitflip_environment import BitFlipEnvironment
from trainer.folds import Fold

KEYS = [(0, 0), (0, 1), (1, 0)]
FOLDS = {0: Fold(0, 60, 62, 80), 1: Fold(10, 90, 92, 120)}
HOST_READS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal"}


class NoHostReads(TorchDispatchMode):
    """Refuses every operation that would make the host wait for the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        assert name not in HOST_READS, f"{name} reads the device"
        return func(*args, **(kwargs or {}))


@pytest.fixture(params=["market", "wild market", "bitflip"])
def make_environment(request, make_setup, random_market):
    """Builds the environment for a list of (seed, fold) keys."""

    def build(keys, dtype=torch.float32):
        if request.param == "bitflip":
            return BitFlipEnvironment(torch.tensor(keys), lanes=5, bits=6, lane_length=8, dtype=dtype)
        market = random_market(130, wild=request.param == "wild market")
        folds = [FOLDS[fold] for _, fold in keys]
        return make_setup(market, folds, keys, dtype, episodes=5).environment

    return build


def actions(environment, keys, position):
    """Actions [M, E, K] that depend on key, lane and position alone."""
    drawn = []
    for seed, fold in keys:
        generator = torch.Generator().manual_seed(1000 * seed + 100 * fold + position)
        drawn.append(
            torch.stack(
                [
                    torch.randint(0, count, (environment.lanes,), generator=generator)
                    for count in environment.layout.actions_per_branch
                ],
                dim=-1,
            )
        )
    return torch.stack(drawn)


def walk(environment, keys, collections=2):
    """Clones of everything that ``collections`` lanes show."""
    seen = []
    for _ in range(collections):
        environment.begin_lanes()
        for position in range(environment.lane_length):
            observation = environment.observation()
            seen += [observation.prefix.clone(), observation.row.clone()]
            result = environment.step(actions(environment, keys, position), position)
            seen += [result.next_prefix.clone(), result.reward.clone(), result.terminated.clone()]
    return seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_types_are_as_the_layout_says(make_environment, dtype):
    environment = make_environment(KEYS, dtype)
    environment.begin_lanes()
    lanes, prefix = (3, 5), environment.layout.prefix_dim
    observation = environment.observation()
    result = environment.step(actions(environment, KEYS, 0), 0)
    assert (observation.prefix.shape, observation.prefix.dtype) == ((*lanes, prefix), dtype)
    assert (observation.row.shape, observation.row.dtype) == (lanes, torch.int64)
    assert (result.next_prefix.shape, result.next_prefix.dtype) == ((*lanes, prefix), dtype)
    assert (result.reward.shape, result.reward.dtype) == (lanes, dtype)
    assert (result.terminated.shape, result.terminated.dtype) == (lanes, torch.bool)
    assert (environment.members, environment.lanes, environment.lane_length) == (3, 5, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_member_sees_the_same_alone_and_in_any_place_of_a_stack(make_environment, dtype):
    stacked = walk(make_environment(KEYS, dtype), KEYS)
    turned = walk(make_environment(KEYS[::-1], dtype), KEYS[::-1])
    for member, key in enumerate(KEYS):
        alone = walk(make_environment([key], dtype), [key])
        for single, stack, other in zip(alone, stacked, turned, strict=True):
            assert torch.equal(single[0], stack[member])
            assert torch.equal(single[0], other[2 - member])


def test_members_with_other_seeds_or_folds_see_other_lanes(make_environment):
    environment = make_environment([(0, 0), (0, 0), (1, 0), (0, 1)])
    environment.begin_lanes()
    prefix = environment.observation().prefix
    assert torch.equal(prefix[0], prefix[1])
    assert not torch.equal(prefix[0], prefix[2])
    assert not torch.equal(prefix[0], prefix[3])


def test_nothing_in_a_lane_waits_for_the_device(make_environment):
    environment = make_environment(KEYS)
    chosen = [actions(environment, KEYS, position) for position in range(environment.lane_length)]
    with NoHostReads(), pytest.raises(AssertionError, match="reads the device"):
        environment.steps.item()
    with NoHostReads():
        environment.begin_lanes()
        for position, action in enumerate(chosen):
            environment.observation()
            environment.step(action, position)


def test_tensors_keep_their_addresses(make_environment):
    environment = make_environment(KEYS)

    def addresses():
        environment.begin_lanes()
        result = environment.step(actions(environment, KEYS, 0), 0)
        observation = environment.observation()
        shown = (observation.prefix, observation.row, result.next_prefix, result.reward, result.terminated)
        return [each.data_ptr() for each in (*shown, environment.steps)]

    assert addresses() == addresses()


def test_the_next_state_is_what_the_next_step_starts_from_unless_the_episode_ended(make_environment):
    environment = make_environment(KEYS)
    environment.begin_lanes()
    for position in range(environment.lane_length - 1):
        row = environment.observation().row.clone()
        result = environment.step(actions(environment, KEYS, position), position)
        goes_on = ~result.terminated
        observation = environment.observation()
        assert torch.equal(observation.prefix[goes_on], result.next_prefix[goes_on])
        if environment.table is not None:
            assert torch.equal(observation.row[goes_on], row[goes_on] + 1)


def test_steps_are_counted_over_all_lanes(make_environment):
    environment = make_environment(KEYS)
    walk(environment, KEYS, collections=3)
    assert environment.steps.item() == 3 * 8


def test_a_restored_environment_goes_on_bit_for_bit(make_environment):
    whole = walk(make_environment(KEYS), KEYS, collections=3)
    first = make_environment(KEYS)
    walk(first, KEYS, collections=1)
    restored = make_environment(KEYS)
    restored.load_state_dict(first.state_dict())
    rest = walk(restored, KEYS, collections=2)
    tail = whole[len(whole) - len(rest) :]
    assert all(torch.equal(a, b) for a, b in zip(rest, tail, strict=True))


def test_a_saved_state_does_not_follow_the_environment(make_environment):
    environment = make_environment(KEYS)
    saved = environment.state_dict()
    walk(environment, KEYS, collections=1)
    assert saved["steps"].item() == 0


def test_float32_follows_float64(make_environment):
    single, exact = (walk(make_environment(KEYS, dtype), KEYS) for dtype in (torch.float32, torch.float64))
    for low, high in zip(single, exact, strict=True):
        assert torch.allclose(low.double(), high.double(), rtol=1e-3, atol=1e-3)
