"""A mark for tests in which Ray really runs: its own warnings are not ours to mend."""

import pytest

REAL_RAY = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:ray",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
