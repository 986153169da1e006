import pytest
import torch

from trainer.phases import phase


@pytest.fixture
def pushed(monkeypatch):
    """Ranges as nvtx would see them; CUDA counts as in use."""
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", lambda name: seen.append(f"+{name}"))
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: seen.append("-"))
    return seen


def test_ranges_nest(pushed):
    with phase("learn"), phase("sample"):
        pushed.append("work")
    assert pushed == ["+learn", "+sample", "work", "-", "-"]


def test_an_error_closes_its_range(pushed):
    with pytest.raises(ZeroDivisionError), phase("learn"):
        _ = 1 / 0
    assert pushed == ["+learn", "-"]


def test_without_cuda_nothing_is_pushed(pushed, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    with phase("learn"):
        pushed.append("work")
    assert pushed == ["work"]
