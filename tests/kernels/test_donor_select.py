"""Donors over wrapped rings against a brute-force ring that holds episode labels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.hyperparameters import STRATEGIES
from trainer.reference.donor_select import RingRows, donor_select

WORDS = [0, 1, 2**30, 2**31 - 1, 2**31, 3 * 2**30, 2**32 - 1]


class BruteForceRing:
    """A ring written one item at a time; it knows whose item lies in which slot and nothing else."""

    def __init__(self, capacity: int, lengths: list[int]) -> None:
        self.capacity = capacity
        self.owner: list[tuple[int, int] | None] = [None] * capacity  # (episode, step in it)
        self.lengths = lengths
        self.bounds: list[tuple[int, int]] = [(0, 0)] * capacity
        self.written = 0
        for episode, length in enumerate(lengths):
            start = self.written
            for step in range(length):
                self.owner[self.written % capacity] = (episode, step)
                self.bounds[self.written % capacity] = (start, start + length)
                self.written += 1

    def filled(self) -> list[int]:
        return [slot for slot, owner in enumerate(self.owner) if owner is not None]

    def legal(self, slot: int, strategy: str, offset: int) -> list[int]:
        """Slots that may donate to ``slot``, in the order of the episode."""
        if strategy == "random":
            return self.filled()
        episode, step = self.owner[slot] or (-1, -1)
        place = {owner[1]: at for at, owner in enumerate(self.owner) if owner and owner[0] == episode}
        if len(place) < self.lengths[episode]:
            return [slot]
        last = self.lengths[episode] - 1
        steps = {
            "final": [last],
            "future": list(range(step + offset, last + 1)) or [step],
            "episode": list(range(last + 1)),
        }[strategy]
        return [place[each] for each in steps]

    def donors(self, strategy: str, offset: int, words: list[int]) -> dict[int, list[int]]:
        """Asks donor_select for every filled slot with every word: slot -> donors."""
        slots = [slot for slot in self.filled() for _ in words]
        bounds = torch.tensor([self.bounds[slot] for slot in slots])
        rows = RingRows(torch.tensor([slots]), bounds[None, :, 0], bounds[None, :, 1])
        donor = donor_select(
            rows,
            torch.tensor(self.written),
            self.capacity,
            torch.tensor([words * len(self.filled())]),
            torch.tensor([STRATEGIES.index(strategy)], dtype=torch.int32),
            torch.tensor([offset], dtype=torch.int32),
        )
        found: dict[int, list[int]] = {slot: [] for slot in slots}
        for slot, chosen in zip(slots, donor[0].tolist(), strict=True):
            found[slot].append(chosen)
        return found


def evenly_spread_words(count: int) -> list[int]:
    return [(2 * k + 1) * 2**31 // count for k in range(count)]


def test_in_a_wrapped_ring_of_16_future_goals_stay_inside_the_episode():
    ring = BruteForceRing(16, [5, 5, 5, 5])
    donors = ring.donors("future", 1, evenly_spread_words(60))
    assert {slot: set(found) for slot, found in donors.items()} == {
        15: {0, 1, 2, 3},
        0: {1, 2, 3},
        1: {2, 3},
        2: {3},
        3: {3},
        4: {4},
        5: {6, 7, 8, 9},
        6: {7, 8, 9},
        7: {8, 9},
        8: {9},
        9: {9},
        10: {11, 12, 13, 14},
        11: {12, 13, 14},
        12: {13, 14},
        13: {14},
        14: {14},
    }


def test_in_a_wrapped_ring_of_16_final_and_episode_goals_stay_inside_the_episode():
    ring = BruteForceRing(16, [5, 5, 5, 5])
    final, episode = (ring.donors(name, 1, evenly_spread_words(60)) for name in ("final", "episode"))
    for slots, last in (({15, 0, 1, 2, 3}, 3), ({5, 6, 7, 8, 9}, 9), ({10, 11, 12, 13, 14}, 14), ({4}, 4)):
        for slot in slots:
            assert set(final[slot]) == {last}
            assert set(episode[slot]) == slots


def test_random_donors_come_from_every_stored_slot_orphans_too():
    wrapped, partial = BruteForceRing(16, [5, 5, 5, 5]), BruteForceRing(16, [5, 2])
    assert set(wrapped.donors("random", 1, evenly_spread_words(16))[4]) == set(range(16))
    assert set(partial.donors("random", 1, evenly_spread_words(7))[0]) == set(range(7))


@pytest.mark.parametrize(("offset", "at_the_start"), [(0, [0, 0, 1, 1, 2, 2]), (1, [1, 1, 1, 2, 2, 2])])
def test_the_future_offset_decides_whether_a_row_may_draw_itself(offset, at_the_start):
    donors = BruteForceRing(8, [3]).donors("future", offset, evenly_spread_words(6))
    assert donors[0] == at_the_start
    assert donors[2] == [2] * 6


def test_an_episode_still_being_written_gives_no_donor_beyond_the_write_head():
    rows = RingRows(torch.tensor([[4] * 7]), torch.full((1, 7), 3), torch.full((1, 7), 9))
    for strategy, expected in (("final", {5}), ("future", {5}), ("episode", {3, 4, 5})):
        donor = donor_select(
            rows,
            torch.tensor(6),
            16,
            torch.tensor([WORDS]),
            torch.tensor([STRATEGIES.index(strategy)], dtype=torch.int32),
            torch.tensor([1], dtype=torch.int32),
        )
        assert set(donor[0].tolist()) == expected


@settings(deadline=None, max_examples=80)
@given(
    st.integers(1, 12),
    st.lists(st.integers(1, 7), min_size=1, max_size=10),
    st.sampled_from(STRATEGIES),
    st.integers(0, 1),
)
def test_donors_equal_the_legal_slots_of_a_brute_force_ring(capacity, lengths, strategy, offset):
    ring = BruteForceRing(capacity, lengths)
    donors = ring.donors(strategy, offset, WORDS)
    for slot in ring.filled():
        legal = ring.legal(slot, strategy, offset)
        assert donors[slot] == [legal[word * len(legal) >> 32] for word in WORDS]


def test_members_of_one_stack_may_follow_different_strategies():
    ring = BruteForceRing(8, [4, 4])
    bounds = torch.tensor([ring.bounds[slot] for slot in (4, 5, 6)])
    strategies = torch.arange(4, dtype=torch.int32)
    rows = RingRows(
        torch.tensor([[4, 5, 6]]).repeat(4, 1), bounds[:, 0].repeat(4, 1), bounds[:, 1].repeat(4, 1)
    )
    word = torch.tensor([[0, 2**31, 2**32 - 1]]).repeat(4, 1)
    donor = donor_select(rows, torch.tensor(8), 8, word, strategies, torch.ones(4, dtype=torch.int32))
    assert dict(zip(STRATEGIES, donor.tolist(), strict=True)) == {
        "final": [7, 7, 7],
        "future": [5, 7, 7],
        "episode": [4, 6, 7],
        "random": [0, 4, 7],
    }
