"""Laws of a model in training."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from simulmt.attention.moment import Moment
from simulmt.attention.schedule import Schedule
from simulmt.decoding.greedy import greedy
from simulmt.laws.case import Case, VacuousError, demand, same
from simulmt.laws.sentences import forced_steps, sentences, short_limit, targets
from simulmt.models.results import Translation

ROUNDING = 1e-8
"""Training and decoding add up in different orders."""


def training_is_hard_decoding(case: Case) -> None:
    """Training with certain decisions gives the same logits as decoding with hard decisions."""
    for seed in range(3):
        made = case.model(seed)
        for part in made.modules():
            if isinstance(part, Schedule):
                case.sharpen(part)
        source, mask = sentences(12, 9, vocabulary=made.vocabulary)
        target = targets(12, 7, vocabulary=made.vocabulary)
        steps, read = forced_steps(made, source, mask, target)
        with torch.no_grad():
            trained = made(source, mask, target)
        chosen = _nearest(trained, steps, read)
        same(chosen, steps, "Logits of training differ from those of decoding", ROUNDING)
        length = mask.sum(1, keepdim=True)
        demand((read.diff(dim=1) >= 0).all(), "A delay is shorter than the one before.")
        demand((read <= length).all(), "A delay is longer than the source.")
        if case.mechanism.offline or (read < length).any():
            return
    raise VacuousError("all of the source is read before each decision")


def _nearest(
    trained: Translation, steps: Float[Tensor, "B T V"], read: Int[Tensor, "B T"]
) -> Float[Tensor, "B T V"]:
    """Return the logits of training; of a token's states that have read as much, the nearest."""
    if trained.reads is None:
        return trained.logits
    far = (trained.logits - steps[:, :, None]).abs().amax(-1)
    state = far.masked_fill(trained.reads != read[..., None], torch.inf).argmin(-1)
    return trained.logits.take_along_dim(state[..., None, None], 2)[:, :, 0]


def padding_changes_nothing(case: Case) -> None:
    """More padding, or fewer other sentences, changes no logits, losses or translations."""
    made = case.model()
    made.length_limit = short_limit
    source, mask = sentences(4, 8, vocabulary=made.vocabulary)
    target = targets(4, 6, vocabulary=made.vocabulary)
    longer, more = pad(source, (0, 5), value=made.vocabulary.pad), pad(mask, (0, 5))
    moment = Moment(lengths=torch.tensor([6, 5, 6, 4]))
    with torch.no_grad():
        padded = made(longer, more, pad(target, (0, 3), value=made.vocabulary.pad), moment)
        whole = made(source, mask, target, moment)
        two = made(source[:2], mask[:2], target[:2], Moment(lengths=torch.tensor([6, 5])))
    same(padded.logits[:, :6], whole.logits, "Logits differ with more padding")
    same(two.logits, whole.logits[:2], "Logits differ in a smaller batch")
    for name, loss in whole.losses.items():
        size = tuple(loss.shape)
        demand(size == (4,), f"The loss {name} of 4 sentences has the shape {size}, not (4,).")
        same(padded.losses[name], loss, f"The loss {name} differs with more padding")
        same(two.losses[name], loss[:2], f"The loss {name} differs in a smaller batch")
    one, other = greedy(made, source, mask), greedy(made, longer, more)
    demand(one == other, f"The translations are {other} with more padding, and {one} without.")


def every_parameter_learns(case: Case) -> None:
    """Every parameter gets a gradient, and the mechanism's losses are those that it declares."""
    made = case.model().train()
    source, mask = sentences(4, 9, vocabulary=made.vocabulary)
    out = made(source, mask, targets(4, 7, vocabulary=made.vocabulary))
    declared = {*case.mechanism.schedule.losses}
    demand(out.losses.keys() == declared, f"Losses: {[*out.losses]}; declared: {sorted(declared)}.")
    total = out.logits.log_softmax(-1)[..., -1].sum()
    total = total if out.confidence is None else total + out.confidence.sum()
    (total + sum(loss.sum() for loss in out.losses.values())).backward()
    silent = [n for n, p in made.named_parameters() if p.grad is None or not p.grad.any()]
    demand(not silent, f"No gradient reaches {', '.join(silent)}.")
