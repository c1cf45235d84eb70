import itertools
import random
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from simulmt.latency import (
    average_lagging,
    average_proportion,
    average_token_delay,
    consecutive_wait,
    differentiable_average_lagging,
    length_adaptive_average_lagging,
    yet_another_average_lagging,
)


def of_reference(metric: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The metric for a reference of two more tokens; 0 where it is not defined."""
    return lambda delays, source, target: metric(delays, source, target, target + 2).nan_to_num(0)


METRICS = [
    average_proportion,
    of_reference(average_proportion),
    average_lagging,
    of_reference(average_lagging),
    of_reference(length_adaptive_average_lagging),
    of_reference(yet_another_average_lagging),
    differentiable_average_lagging,
    average_token_delay,
    consecutive_wait,
]


def value_of(metric, delays, source_length, *reference_length):
    row = torch.tensor([delays], dtype=torch.float64)
    lengths = [torch.tensor([n]) for n in (source_length, len(delays), *reference_length)]
    return metric(row, *lengths).item()


def wait(k: int, source_length: int, target_length: int) -> list[int]:
    return [min(k + i, source_length) for i in range(target_length)]


def dal_by_the_recurrence(delays, source_length):
    gamma = len(delays) / source_length
    previous, total = None, 0.0
    for i, delay in enumerate(delays, start=1):
        previous = delay if previous is None else max(delay, previous + 1 / gamma)
        total += previous - (i - 1) / gamma
    return total / len(delays)


def al_by_the_definition(delays, source_length, pace_length):
    gamma = pace_length / source_length
    tau = next((i for i, g in enumerate(delays, 1) if g >= source_length), len(delays))
    return sum(delays[i - 1] - (i - 1) / gamma for i in range(1, tau + 1)) / tau


def yaal_by_the_definition(delays, source_length, pace_length):
    gamma = pace_length / source_length
    lags = []
    for i, delay in enumerate(delays, 1):
        if delay >= source_length:
            break
        lags.append(delay - (i - 1) / gamma)
    return sum(lags) / len(lags) if lags else float("nan")


def atd_by_the_chunks(delays):
    """The definition: chunks, their sizes, the end of each token in time, and its match."""
    chunks = [list(group) for _, group in itertools.groupby(delays)]
    read_by = [0, *(chunk[0] for chunk in chunks)]
    source_sizes = [after - before for before, after in pairwise(read_by)]
    end, total, t = 0.0, 0.0, 0
    for c, chunk in enumerate(chunks):
        for delay in chunk:
            t += 1
            end = max(delay, end) + 1
            written, read = sum(map(len, chunks[:c])), sum(source_sizes[:c])
            matched = min(t - max(0, written - read), sum(source_sizes[: c + 1]))
            total += end - matched  # source token j ends at time j
    return total / len(delays)


def random_sentence(rng):
    source_length, target_length = rng.randint(1, 12), rng.randint(1, 12)
    delays = sorted(rng.randint(0, source_length) for _ in range(target_length))
    return delays, source_length


def padded_batch(seed=0, sentences=20, padding=0.0):
    rng = random.Random(seed)
    rows = [random_sentence(rng) for _ in range(sentences)]
    longest = max(len(delays) for delays, _ in rows) + 3
    batch = torch.full((sentences, longest), padding, dtype=torch.float64)
    for line, (delays, _) in zip(batch, rows, strict=True):
        line[: len(delays)] = torch.tensor(delays) + torch.rand(len(delays)) * 0.3
    source = torch.tensor([n for _, n in rows])
    target = torch.tensor([len(delays) for delays, _ in rows])
    return batch, source, target


def test_the_example_of_the_milk_paper():
    wait_3 = [3, 4, 4, 4]
    assert value_of(average_lagging, wait_3, 4) == 3
    assert value_of(differentiable_average_lagging, wait_3, 4) == 3
    assert value_of(average_proportion, [1, 2], 2) == 0.75
    assert value_of(consecutive_wait, wait_3, 4) == 2


def test_wait_k_lags_by_k():
    """And a model that reads all first by the whole source."""
    for length in (1, 2, 7, 30):
        for k in range(1, length + 1):
            delays = wait(k, length, length)
            assert value_of(average_lagging, delays, length) == pytest.approx(k)
            assert value_of(differentiable_average_lagging, delays, length) == pytest.approx(k)
        assert value_of(average_proportion, delays, length) == 1
        assert value_of(consecutive_wait, delays, length) == length


DEFINITIONS = {
    "AL": (average_lagging, al_by_the_definition, lambda written, pace: written),
    "AL of the reference": (average_lagging, al_by_the_definition, lambda written, pace: pace),
    "LAAL": (length_adaptive_average_lagging, al_by_the_definition, max),
    "YAAL": (yet_another_average_lagging, yaal_by_the_definition, max),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_laggings_are_their_definitions(name):
    """Also where the source is never read to its end, or the first delay is beyond it."""
    metric, definition, pace_of = DEFINITIONS[name]
    rng = random.Random(2)
    for _ in range(300):
        delays, source_length = random_sentence(rng)
        delays = [delay + 3 * (rng.random() < 0.1) for delay in delays]
        pace = rng.randint(1, 12)
        reference = () if name == "AL" else (pace,)
        expected = definition(delays, source_length, pace_of(len(delays), pace))
        value = value_of(metric, delays, source_length, *reference)
        assert value == pytest.approx(expected, nan_ok=True)


def test_dal_and_atd_are_their_definitions():
    rng = random.Random(1)
    for _ in range(300):
        delays, source_length = random_sentence(rng)
        value = value_of(average_token_delay, delays, source_length)
        assert value == pytest.approx(atd_by_the_chunks(delays))
        delays = [delay + rng.random() for delay in delays]  # expected delays
        value = value_of(differentiable_average_lagging, delays, source_length)
        assert value == pytest.approx(dal_by_the_recurrence(delays, source_length))


def test_ap_by_the_reference_divides_by_its_length():
    assert value_of(average_proportion, [1, 2, 2], 2, 2) == 5 / 4
    assert value_of(average_proportion, [1, 2, 2], 2) == 5 / 6


def test_consecutive_wait_counts_the_runs_of_reading():
    assert value_of(consecutive_wait, [2, 2, 5, 6, 6], 6) == 2
    assert value_of(consecutive_wait, [0, 0, 4], 6) == 4
    assert value_of(consecutive_wait, [0, 0], 6) == 0
    assert value_of(consecutive_wait, [2, 4], 6, 6) == 3  # with the reads after the last unit
    assert value_of(consecutive_wait, [0, 0], 6, 6) == 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("padding", [1e6, float("nan"), float("inf")])
def test_padding_reaches_neither_value_nor_gradient(metric, padding):
    results = []
    for fill in (0.0, padding):
        torch.manual_seed(0)
        delays, source, target = padded_batch(padding=fill)
        delays.requires_grad_()
        values = metric(delays, source, target)
        values.sum().backward()
        results.append((values.detach(), delays.grad))
        beyond = torch.arange(delays.shape[1]) >= target[:, None]
        assert torch.all(delays.grad[beyond] == 0)
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sentence_alone_is_what_it_is_in_a_batch(metric, dtype):
    delays, source, target = padded_batch()
    delays = delays.to(dtype)
    values = metric(delays, source, target)
    assert values.dtype == dtype
    for b, length in enumerate(target.tolist()):
        alone = metric(delays[b : b + 1, :length], source[b : b + 1], target[b : b + 1])
        torch.testing.assert_close(alone[0], values[b])
    half = metric(delays.bfloat16(), source, target)
    assert half.dtype == torch.float32, "half precision is computed in float32"


@pytest.mark.parametrize("metric", METRICS[:-1])
def test_gradients(metric):
    torch.manual_seed(0)
    delays, source, target = padded_batch(sentences=6)
    delays = (delays + torch.rand_like(delays) * 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda d: metric(d, source, target), (delays,))


@pytest.mark.parametrize("metric", METRICS)
def test_a_sentence_without_a_written_unit_is_zero_and_has_no_gradient(metric):
    delays = torch.tensor([[3.0, 4.0], [1.0, 2.0]], requires_grad=True)
    values = metric(delays, torch.tensor([4, 0]), torch.tensor([0, 0]))
    values.sum().backward()
    assert values.tolist() == [0, 0]
    assert torch.all(delays.grad == 0)
