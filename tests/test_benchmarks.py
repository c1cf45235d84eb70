"""The benchmarks run, at tiny sizes, and say truly what is met; nothing is timed here."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import ddp
import decoding
import epochs
import equal_systems
import gpu_steps
import growth
import likelihood
import numpy as np
import peers
import pipeline
import pytest
import recurrent
import scale
import serve
import start
import steps
import suite
import torch
import training
from frame import Result, in_turns, summed_up

from reported import rows
from simulmt.files.instances import read_instances
from simulmt.files.run_directory import INSTANCES
from simulmt.models.vocabulary import Vocabulary
from simulmt.parts.builders import build_objective
from zoo import EOS, PAD


def result(
    *figures: float, least: float | None = None, most: float | None = None, unit: str = "x"
) -> Result:
    return summed_up("subject", "what", figures, least=least, most=most, unit=unit)


def test_a_target_is_met_up_to_its_bound_and_missed_beyond() -> None:
    assert result(2, 1, 3, most=2).met
    assert not result(2, 2.1, 3, most=2).met
    assert result(1.1, least=0.9, most=1.1).met
    assert not result(0.8, least=0.9, most=1.1).met
    assert not result(float("nan"), least=1).met


def test_a_target_says_what_is_asked_for() -> None:
    bounds = [(None, None), (1, None), (None, 2), (1, 2)]
    said = [result(1, least=least, most=most).target for least, most in bounds]
    assert said == ["", "≥ 1", "≤ 2", "1 to 2"]


def test_the_table_shows_a_missed_target_as_missed(tmp_path: Path) -> None:
    found = [result(1, most=2), result(3, most=2)]
    suite.write(found, {"machine": "some"}, tmp_path / "results")
    rows = (tmp_path / "results.md").read_text().splitlines()[-2:]
    assert ["met" in rows[0], "missed" in rows[1]] == [True, True]
    saved = json.loads((tmp_path / "results.json").read_text())["results"]
    assert [one["met"] for one in saved] == [True, False]


def test_contestants_take_turns_and_the_first_rounds_are_left_out() -> None:
    ran: list[str] = []
    times = in_turns({name: lambda name=name: ran.append(name) for name in "ab"}, 3, warm_up=2)
    assert "".join(ran) == "abbaabbaab"
    assert [len(found) for found in times.values()] == [3, 3]


def test_a_made_up_batch_has_the_lengths_it_is_asked_for() -> None:
    given = steps.batch(200, 20, Vocabulary(50))
    lengths = given.target_mask.sum(1)
    assert given.target.shape == (10, 20)
    assert lengths.max() == 20
    assert lengths.min() >= 18
    assert (given.target.gather(1, lengths[:, None] - 1) == EOS).all()


def test_the_contestants_of_a_training_step_step() -> None:
    size = training.Size("transformer", "verbfinal", 40, 1.0)
    made = training.contestants(size, 8)
    assert [*made] == ["soft", *training.TARGETS]
    for run in made.values():
        run()
    made = recurrent.contestants(24, 6, "rnmt_plus")
    for run in made.values():
        run()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch's, on its own layers
def test_the_peers_of_a_training_step_step() -> None:
    made = training.rivals(training.Size("transformer", "verbfinal", 40, 1.0), 8)
    assert [*made] == ["soft", *peers.PEERS]
    for run in made.values():
        run()


def test_the_loss_of_the_peers_is_ours() -> None:
    config = steps.settings("transformer", "verbfinal", "soft")
    network = steps.model(config).eval()
    given = steps.batch(40, 8, steps.vocabulary(config))
    out = network(given.source, given.source_mask, given.target_input)
    ours = build_objective(config["objective"]).loss(out, given, 0)  # type: ignore[attr-defined]
    theirs = peers.smoothed_loss(out.logits, given.target, config["objective"]["label_smoothing"])
    torch.testing.assert_close(theirs, ours.total / ours.tokens)


def test_steps_for_a_gpu_are_the_same_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_steps, "SIZES", {"transformer": "verbfinal"})
    monkeypatch.setattr(gpu_steps, "LENGTHS", (8,))
    for run in gpu_steps.transformer("transformer", 8, 40, "cpu").values():
        run()
    assert len(gpu_steps.of_size("transformer", 40, "cpu", 1)) == len(gpu_steps.TARGETS)


def test_a_step_with_all_logits_holds_more_than_one_without() -> None:
    for run in likelihood.contestants(50, 8, 20).values():
        run()
    ours, other = likelihood.peaks("transformer", 2000, 1200)
    assert other - ours > 4 * 2000 * 1200


def test_peak_memory_is_what_is_held_at_once() -> None:
    def run() -> None:
        for _ in range(3):
            torch.empty(1000, dtype=torch.float32)
        kept = torch.empty(500, dtype=torch.float32)
        del kept

    assert steps.peak_bytes(run) == pytest.approx(4000, rel=0.1)  # the allocator rounds up


def test_a_model_that_never_ends_of_itself_writes_up_to_the_limit() -> None:
    source = decoding.sources(3, Vocabulary(100))[:, :12]
    source[:, -1] = EOS
    assert decoding.written(decoding.endless("soft"), source[1:]) % (2 * 12 + 20) == 0
    assert (decoding.sources(3, Vocabulary(100))[0] != PAD).sum() == decoding.SHORTEST


def test_a_made_up_corpus_is_prepared(tmp_path: Path) -> None:
    pipeline.write_corpus(tmp_path, 300)
    assert len((tmp_path / "train.en").read_text().splitlines()) == 300


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the memory")
def test_an_order_of_made_up_lengths_has_every_pair() -> None:
    *_, batches, tokens = epochs.order(np.full((3, 2), 20, np.int32), 9000)
    assert batches.value * epochs.TOKENS >= 9000 * 20 / epochs.RANKS
    assert batches.value * tokens.value * epochs.RANKS == pytest.approx(9000 * 20)


def test_memory_is_carried_on_by_tokens_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    config = steps.settings("transformer", "verbfinal", "soft")
    monkeypatch.setattr(scale, "configuration", lambda *_: config)
    monkeypatch.setattr(scale, "peak", lambda *size: 7.0 + size[2] * (2 + size[3]))
    carried = [value for what, value, _ in scale.of_model("") if "carried on" in what]
    tokens = config["data"]["batch_tokens"]
    assert carried == pytest.approx([tokens * (2 + length) for length in scale.ASKED])


def test_the_exponent_of_what_grows_with_the_square_is_two(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {str(size): [float(size**2)] * 2 for size in (2, 4, 8)}
    monkeypatch.setattr(growth, "in_turns", lambda *_: times)
    assert growth.exponents(dict.fromkeys((2, 4, 8), lambda: None), 2) == pytest.approx([2, 2])


def test_equal_systems_differ_in_one_of_twenty_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"POPULATION": 40, "SENTENCES": 30, "RESAMPLES": 40}.items():
        monkeypatch.setattr(equal_systems, name, size)
    small = equal_systems.measure(4)
    committed = rows(Path(equal_systems.__file__).with_suffix(".csv"))
    for key in ("what", "seeds"):
        assert [row[key] for row in committed] == [str(row[key]) for row in small]
    (single, *_) = committed
    assert (single["what"], single["pairs"]) == ("single points", "2000")
    assert 4 <= float(single["below"]) <= 6


@pytest.mark.slow
def test_sessions_at_once_get_the_words_of_the_test_set(
    trained_once: Callable[..., Path],
) -> None:
    run = trained_once("mechanism=multi_path")
    arguments = Namespace(checkpoint=run, rate=600, seconds=1)
    core = min(os.sched_getaffinity(0))
    row = serve.measure(arguments, read_instances(run / INSTANCES), 3, core)
    assert (row.sessions, row.wrong) == (3, 0)
    assert row.sentences >= 3


def test_the_package_imports_no_lightning() -> None:
    assert start.brought_along("simulmt").met


def test_one_core_is_no_measurement_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert not ddp.measure(1)[0].met
