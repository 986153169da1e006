"""accept_step: what counts as finite, clipping factors, bias corrections, guard and means."""

from dataclasses import dataclass

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.finite_guard import FiniteGuard
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.accept_step import StepVerdict, accept_step
from trainer.learning_means import LearningMeans

pytestmark = pytest.mark.gpu
WIDTHS = (4096, 2048)  # two pieces of Q, one of each value network


@dataclass
class Step:
    """Inputs and outputs of one call for two members of B rows."""

    part: torch.Tensor
    td_error: torch.Tensor
    terms: torch.Tensor
    hyper: Hyperparameters
    accept: torch.Tensor
    verdict: StepVerdict
    guard: FiniteGuard
    means: LearningMeans

    def run(self):
        accept_step(
            self.part,
            self.td_error,
            self.terms,
            self.hyper,
            self.accept,
            self.verdict,
            self.guard,
            self.means,
            WIDTHS,
        )


@pytest.fixture
def step(cuda):
    configs = [
        TrainerConfig().with_overrides({"max_norm": 10.0, "learning_rate": 1e-2, "weight_decay": 0.1}),
        TrainerConfig().with_overrides({"max_norm": 1.0, "learning_rate": 1e-3, "polyak_tau": 0.5}),
    ]
    terms = torch.arange(4 * 2 * 5, dtype=torch.float32, device=cuda).view(4, 2, 5)
    return Step(
        part=torch.tensor([[9.0, 16.0, 4.0, 1.0], [9.0, 16.0, 4.0, 1.0]], device=cuda),
        td_error=torch.ones((2, 5), device=cuda),
        terms=terms,
        hyper=Hyperparameters.stack(configs, torch.float32, cuda),
        accept=torch.full((2,), 7, dtype=torch.int32, device=cuda),
        verdict=StepVerdict.allocate(2, 3, cuda),
        guard=FiniteGuard(2, cuda),
        means=LearningMeans(2, torch.float32, cuda),
    )


def test_norms_clip_each_network_of_a_member_by_itself(step):
    step.run()
    clip = step.verdict.scalars[:, :, 1]
    expected = torch.tensor([[1.0, 1 / 5.000001], [1.0, 1 / 2.000001], [1.0, 1 / 1.000001]])
    torch.testing.assert_close(clip.cpu(), expected)


def test_scalars_of_the_second_step_hold_its_bias_corrections(step):
    step.run()
    step.run()
    accept, _, beta1, rest1, beta2, rest2, rate, root, eps, keep, polyak, _ = step.verdict.scalars[
        0, 0
    ].tolist()
    assert (accept, beta1, beta2) == pytest.approx((1.0, 0.9, 0.999))
    assert (rest1, rest2, eps) == pytest.approx((0.1, 0.001, 1e-8), rel=1e-4)
    assert rate == pytest.approx(1e-2 / (1 - 0.9**2))
    assert root == pytest.approx((1 - 0.999**2) ** -0.5, rel=1e-5)
    assert keep == pytest.approx(1 - 1e-2 * 0.1)
    assert polyak == pytest.approx(0.005)
    assert step.verdict.adam_step.tolist() == [2, 2]


def test_the_report_holds_means_over_the_batch_and_the_norm_of_q(step):
    step.run()
    report = step.verdict.report.cpu()
    assert report[:, 0].tolist() == [2.0, 12.0, 22.0, 5.0, 32.0]
    assert report[:, 1].tolist() == [7.0, 17.0, 27.0, 5.0, 37.0]
    assert torch.equal(step.means.sums, step.verdict.report)
    assert step.means.count.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("quantity", [0, 1, 2, 3])
def test_the_first_bad_quantity_is_recorded_and_the_member_skipped(step, quantity, bad):
    step.run()
    for place in (step.td_error[1], step.terms[0, 1], step.terms[1, 1], step.part[1])[quantity:]:
        place[3] = bad
    step.run()
    step.run()
    assert step.accept.tolist() == [1, 0]
    assert step.verdict.scalars[:, :, 0].tolist() == [[1.0, 0.0]] * 3
    assert step.guard.skipped.tolist() == [0, 2]
    assert step.guard.first_step.tolist() == [-1, 1]
    assert step.guard.first_quantity.tolist() == [-1, quantity]
    assert step.verdict.adam_step.tolist() == [3, 1]
    assert step.verdict.updates.tolist() == [3, 3]
    assert step.means.count.tolist() == [3.0, 1.0]
    assert step.means.sums.isfinite().all()


@pytest.mark.parametrize("rows", [1, 31, 513, 16384])
def test_every_row_counts_once(step, cuda, rows):
    step.td_error = torch.ones((2, rows), device=cuda)
    step.terms = torch.rand((4, 2, rows), device=cuda)
    step.run()
    report = step.verdict.report
    torch.testing.assert_close(report[[0, 1, 2, 4]].double(), step.terms.double().mean(2), rtol=1e-6, atol=0)
