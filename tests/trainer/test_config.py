"""Configuration: what is refused, and what the user reads then; overrides; search-space vocabulary."""

import math

import pytest

from trainer.config import Choice, Float, Int, SearchSpace, TrainerConfig, When, known_names, locate
from trainer.errors import ConfigError


def complaint(values):
    with pytest.raises(ConfigError) as refused:
        TrainerConfig.build(values)
    return str(refused.value)


def test_no_values_give_the_documented_defaults():
    config = TrainerConfig.build()
    assert config == TrainerConfig()
    assert (config.agent.batch_size, config.replay.capacity, config.training.updates) == (256, 2**17, 512)
    assert (config.agent.gamma, config.agent.iql_expectile_tau, config.hindsight.her_ratio) == (
        0.95,
        0.7,
        0.0,
    )


@pytest.mark.parametrize(
    ("section", "key", "value", "rule", "interval"),
    [
        ("hindsight", "her_ratio", 1.2, "0 <= her_ratio <= 1", "[0, 1]"),
        ("hindsight", "her_ratio", -0.1, "0 <= her_ratio <= 1", "[0, 1]"),
        ("hindsight", "her_future_offset", 2, "0 <= her_future_offset <= 1", "[0, 1]"),
        ("agent", "iql_expectile_tau", 0, "0 < iql_expectile_tau < 1", "(0, 1)"),
        ("agent", "iql_expectile_tau", 1, "0 < iql_expectile_tau < 1", "(0, 1)"),
        ("agent", "iql_expectile_tau", 1.2, "0 < iql_expectile_tau < 1", "(0, 1)"),
        ("agent", "gamma", 1.0, "0 <= gamma < 1", "[0, 1)"),
        ("agent", "learning_rate", -1, "0 <= learning_rate", "[0, inf)"),
        ("agent", "num_atoms", 1, "2 <= num_atoms", "[2, inf)"),
        ("replay", "capacity", 2**22, "2 <= capacity <= 2097152", "[2, 2097152]"),
        ("replay", "per_alpha", 1.5, "0 <= per_alpha <= 1", "[0, 1]"),
        ("walk_forward", "train", 0, "1 <= train", "[1, inf)"),
        ("walk_forward", "holdout_frac", 1.0, "0 <= holdout_frac < 1", "[0, 1)"),
        (
            "metrics",
            "periods_per_year",
            0,
            "0.1 <= periods_per_year <= 1000000000000",
            "[0.1, 1000000000000]",
        ),
        ("hindsight", "achieved_offset", -1, "0 <= achieved_offset", "[0, inf)"),
    ],
)
def test_a_number_out_of_range_is_refused_with_its_rule_value_and_range(section, key, value, rule, interval):
    expected = f"{section}.{key}: `{rule}` must hold, but got {value}; give a value in {interval}"
    assert complaint({section: {key: value}}) == expected


@pytest.mark.parametrize("value", [0.0, 1.0, 1, "0.5"])
def test_the_closed_ends_of_a_range_and_numbers_in_words_are_legal(value):
    assert TrainerConfig.build({"hindsight": {"her_ratio": value}}).hindsight.her_ratio == float(value)


def test_a_word_out_of_range_is_refused_like_a_number():
    assert complaint({"hindsight": {"her_ratio": "-0.1"}}).endswith("but got -0.1; give a value in [0, 1]")


def test_an_entry_of_a_tuple_out_of_range_is_named_by_its_place():
    assert complaint({"environment": {"actions_per_branch": [5, 0]}}) == (
        "environment.actions_per_branch: `1 <= actions_per_branch[1]` must hold, but got 0; "
        "give a value in [1, inf)"
    )


@pytest.mark.parametrize(
    ("section", "key", "value", "expected"),
    [
        ("agent", "gamma", math.nan, "`gamma` must be a finite number, but got nan; give a value in [0, 1)"),
        ("agent", "v_max", math.inf, "`v_max` must be a finite number, but got inf"),
        ("agent", "v_max", "high", "`v_max` must be a number, but got 'high'"),
        ("agent", "use_iql", "maybe", "`use_iql` must be true or false, but got 'maybe'"),
        (
            "agent",
            "head_width",
            1.5,
            "`head_width` must be a whole number, but got 1.5; give a value in [1, inf)",
        ),
        ("data", "decimal", ";", "`decimal` must be '.' or ',', but got ';'"),
        (
            "hindsight",
            "her_strategy",
            "past",
            "`her_strategy` must be 'final', 'future', 'episode' or 'random', but got 'past'",
        ),
    ],
)
def test_a_value_of_another_kind_is_refused_with_what_would_be_legal(section, key, value, expected):
    assert complaint({section: {key: value}}) == f"{section}.{key}: {expected}"


def test_a_value_in_place_of_a_section_is_refused():
    assert complaint({"agent": 4}).startswith("agent: `agent` must be a valid dictionary")


@pytest.mark.parametrize(
    ("values", "key", "nearest"),
    [
        ({"agent": {"batchsize": 3}}, "agent.batchsize", "agent.batch_size"),
        ({"hindsight": {"her_ration": 0.5}}, "hindsight.her_ration", "hindsight.her_ratio"),
        ({"agnt": {}}, "agnt", "agent"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(values, key, nearest):
    assert complaint(values) == f"{key}: unknown key; the nearest known one is {nearest}"


def test_rules_between_keys_name_one_of_them_and_both_values():
    assert complaint({"agent": {"v_min": 6, "v_max": 6}}) == (
        "agent.v_min: `v_min < v_max` must hold, but got (agent.v_min=6.0, agent.v_max=6.0); "
        "lower v_min or raise v_max"
    )
    assert complaint({"replay": {"capacity": 5}}) == (
        "replay.capacity: `episodes * episode_length <= capacity` must hold, but got 64 * 128 = 8192 > 5; "
        "raise replay.capacity or lower environment.episodes"
    )
    assert complaint({"environment": {"actions_per_branch": []}}) == (
        "environment.actions_per_branch: at least one branch is needed, but got ()"
    )


def test_a_collection_that_fills_the_ring_exactly_is_legal():
    assert TrainerConfig.build({"replay": {"capacity": 64 * 128}}).replay.capacity == 8192


def test_overrides_take_short_and_dotted_names_and_leave_the_rest():
    base = TrainerConfig()
    changed = base.with_overrides({"gamma": 0.9, "replay.per_alpha": 0.5})
    assert (changed.get("agent.gamma"), changed.get("gamma"), changed.get("per_alpha")) == (0.9, 0.9, 0.5)
    assert changed.with_overrides({"gamma": 0.95, "per_alpha": 0.6}) == base
    assert base.agent.gamma == 0.95


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("her_ration", "hindsight.her_ratio"),
        ("agent.her_ratio", "hindsight.her_ratio"),  # a known key of another section
        ("batch_sizes", "agent.batch_size"),
        ("lr", "agent.learning_rate"),
    ],
)
def test_an_unknown_override_is_refused_with_the_nearest_known_name(name, nearest):
    with pytest.raises(ConfigError) as refused:
        TrainerConfig().with_overrides({name: 0.5})
    assert str(refused.value) == f"{name}: unknown key; the nearest known one is {nearest}"


def test_an_override_out_of_range_is_refused():
    with pytest.raises(ConfigError, match=r"agent.gamma: `0 <= gamma < 1` must hold, but got 1"):
        TrainerConfig().with_overrides({"gamma": 1})


def test_short_names_are_unique_over_all_sections_and_resolve():
    keys = [
        (section, key)
        for section, field in TrainerConfig.model_fields.items()
        for key in type(field.default).model_fields
    ]
    assert len(known_names()) == len(keys)
    for section, key in keys:
        assert locate(key) == locate(f"{section}.{key}") == (section, key)


def test_a_configuration_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        TrainerConfig().agent.gamma = 0.5


def test_a_condition_holds_by_threshold_or_by_value_and_not_without_its_parameter():
    above, equals = When("her_ratio", above=0.0), When("her_strategy", equals="final")
    assert above.holds({"her_ratio": 0.1})
    assert not above.holds({"her_ratio": 0.0})
    assert not above.holds({})
    assert equals.holds({"her_strategy": "final"})
    assert not equals.holds({"her_strategy": "random"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Float("gamma", 0.9, 0.5), r"gamma: `low <= high` must hold, but got \(low=0.9, high=0.5\)"),
        (lambda: Int("batch_size", 9, 8), r"batch_size: `low <= high` must hold, but got \(low=9, high=8\)"),
        (lambda: Float("learning_rate", 0.0, 1.0, log=True), r"learning_rate: `low > 0` must hold"),
        (lambda: Float("gamma", 0.0, 1.0, step=0.0), r"gamma: `step > 0 and not log` must hold"),
        (lambda: Float("gamma", 0.1, 1.0, step=0.1, log=True), r"gamma: `step > 0 and not log` must hold"),
        (lambda: Choice("her_strategy", ()), r"her_strategy: a choice needs at least one value"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((Float("gama", 0.1, 0.5),), "gama: unknown key; the nearest known one is agent.gamma"),
        ((Float("gamma", 0.1, 0.5), Float("gamma", 0.2, 0.3)), "gamma: stands twice in search space 'mine'"),
        (
            (
                Choice("her_strategy", ("final",), when=When("her_ratio", above=0.0)),
                Float("her_ratio", 0.0, 1.0),
            ),
            "her_strategy: its condition names 'her_ratio', which must stand earlier in search space 'mine'",
        ),
    ],
)
def test_a_space_with_unknown_doubled_or_unordered_parameters_is_refused(parameters, message):
    with pytest.raises(ConfigError) as refused:
        SearchSpace("mine", parameters)
    assert str(refused.value) == message


def test_a_space_whose_condition_follows_its_parameter_is_legal():
    ratio = Float("her_ratio", 0.0, 0.8, step=0.1)
    strategy = Choice("her_strategy", ("final", "future"), when=When("her_ratio", above=0.0))
    assert SearchSpace("mine", (ratio, strategy)).parameters == (ratio, strategy)


@pytest.mark.parametrize(
    ("section", "key"),
    [("training", "epochs"), ("agent", "gamma"), ("data", "path"), ("agent", "trunk_widths")],
)
def test_a_truth_value_is_no_number_and_no_text(section, key):
    assert "must be another value than true or false, but got True" in complaint({section: {key: True}})


@pytest.mark.parametrize("value", [2**31, "99999999999999999999"])
def test_an_integer_that_no_array_could_index_is_refused(value):
    assert complaint({"training": {"epochs": value}}).startswith(
        "training.epochs: `epochs` must lie below 2147483648, but got "
    )


def test_an_unset_key_that_needs_a_value_is_refused_in_words():
    assert complaint({"training": {"epochs": None}}) == (
        "training.epochs: `epochs` must be a whole number, but got nothing; give a value in [1, inf)"
    )


RATIO = Float("her_ratio", 0.0, 0.8)
STRATEGY = Choice("her_strategy", ("final", "future"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SearchSpace("s", ()), r"space: needs at least one parameter, but search space 's' has none"),
        (lambda: SearchSpace(3, (RATIO,)), r"space: a search space's name must be a text, but got 3"),
        (lambda: SearchSpace("s", ("gamma",)), r"may hold Float, Int and Choice only, but got 'gamma'"),
        (lambda: Float("gamma", "0", 0.9), r"gamma: low and high must be numbers, but got \(low='0'"),
        (lambda: Int("batch_size", 16, 64.5), r"batch_size: high must be a whole number, but got 64\.5"),
        (
            lambda: When("her_ratio", above="x"),
            r"her_ratio: a condition's above must be a number, but got 'x'",
        ),
    ],
)
def test_a_space_of_wrong_types_is_refused_in_words(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


@pytest.mark.parametrize(
    ("earlier", "when"),
    [
        (RATIO, When("her_ratio", above=0.8)),
        (RATIO, When("her_ratio", equals=0.9)),
        (RATIO, When("her_ratio", equals="big")),
        (STRATEGY, When("her_strategy", equals="episode")),
        (Choice("use_iql", (False, True)), When("use_iql", above=1)),
    ],
)
def test_a_condition_that_never_holds_is_refused(earlier, when):
    with pytest.raises(ConfigError, match=r"gamma: its condition asks .* which it never is"):
        SearchSpace("s", (earlier, Float("gamma", 0.9, 0.99, when=when)))
