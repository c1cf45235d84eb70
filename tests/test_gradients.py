"""The gradient of each objective is its derivative: nothing stops it that no option stops."""

import pytest
import torch

import zoo
from simulmt.attention import Moment
from simulmt.objective import LatencyAugmented, MarginalLikelihood, Objective, SelfModifying
from test_objective import SETTINGS
from test_self_modifying import DRAW, a_batch

EARLY = {"label_smoothing": 0.1, "hold": 0, "warmup": 0}
ITST, WAIT_INFO = {"information_lag": 1.0, "information_norm": 0.2}, {"information_gap": 0.3}
OBJECTIVES: dict[str, Objective] = {
    "mma_il": LatencyAugmented(**SETTINGS),
    "milk": LatencyAugmented(**SETTINGS | {"variance": "alignment", "latency": "ap"}),
    "itst": LatencyAugmented(**SETTINGS | {"terms": ITST}),
    "wait_info": LatencyAugmented(**SETTINGS | {"terms": WAIT_INFO}),
    "hmt": MarginalLikelihood(**EARLY, states=0.7, latency=0.3),
    "sm2": SelfModifying(**EARLY, penalty=0.3, detach=False),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_gradient_is_the_derivative(name: str) -> None:
    """Along a random direction of all parameters."""
    made, batch = zoo.model(zoo.options(name)), a_batch()
    moment = Moment(90, 100, DRAW.double(), batch.target_mask.sum(1))
    parameters, step, losses = [*made.parameters()], 1e-6, []
    OBJECTIVES[name](made, batch, moment).total.backward()
    along = [torch.randn_like(x) for x in parameters]
    for size in (step, -2 * step):
        with torch.no_grad():
            for x, way in zip(parameters, along, strict=True):
                x.add_(way, alpha=size)
            losses.append(OBJECTIVES[name](made, batch, moment).total.item())
    grads = zip(parameters, along, strict=True)
    found = sum((x.grad * way).sum().item() for x, way in grads if x.grad is not None)
    assert found == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-6)
