"""How gradient steps are divided among replays of a captured graph."""

import pytest

from trainer.config import TrainerConfig
from trainer.errors import ConfigError
from trainer.fused.steps import replays


@pytest.mark.parametrize(
    ("updates", "steps_per_replay", "expected"),
    [
        (0, 8, []),
        (3, 8, [1, 1, 1]),
        (8, 8, [8]),
        (19, 8, [8, 8, 1, 1, 1]),
        (3, 1, [1, 1, 1]),
        (512, 512, [512]),
    ],
)
def test_whole_replays_come_first_and_single_steps_make_up_the_rest(updates, steps_per_replay, expected):
    assert list(replays(updates, steps_per_replay)) == expected


def test_eight_steps_go_into_a_replay_unless_the_configuration_says_otherwise():
    assert TrainerConfig.build().training.steps_per_replay == 8
    changed = TrainerConfig.build({"training": {"steps_per_replay": 32}})
    assert changed.training.steps_per_replay == 32


@pytest.mark.parametrize("steps", [0, -1, 2.5])
def test_a_replay_without_a_whole_step_is_refused(steps):
    with pytest.raises(ConfigError) as caught:
        TrainerConfig.build({"training": {"steps_per_replay": steps}})
    assert caught.value.key == "training.steps_per_replay"
