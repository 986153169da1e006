"""Numbers with their nouns."""

import pytest

from trainer.wording import nouns, plural


@pytest.mark.parametrize(
    ("count", "form", "text"),
    [
        (0, "", "0 trials"),
        (1, "", "1 trial"),
        (2, "", "2 trials"),
        (2000, "", "2000 trials"),
        (2000, ",", "2,000 trials"),
        (1.0, "g", "1 trial"),
        (0.5, "g", "0.5 trials"),
    ],
)
def test_one_stands_with_the_singular_and_every_other_number_with_the_plural(count, form, text):
    assert plural(count, "trial", form) == text


def test_the_noun_is_also_had_without_its_number():
    assert [nouns(count, "column") for count in (0, 1, 2)] == ["columns", "column", "columns"]
