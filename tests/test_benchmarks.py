"""The benchmarks run, at tiny sizes, and say truly what is met; nothing is timed here."""

import importlib
import json
import math
from pathlib import Path

import gpu_steps
import intervals
import likelihood
import peers
import pytest
import recurrent
import steps
import suite
import torch
import training
from frame import summed_up

from simulmt.parts.builders import build_objective

ROOT = Path(__file__).resolve().parents[1]


def test_a_target_is_met_up_to_its_bound_and_missed_beyond(tmp_path):
    bounds = {2.0: (None, 2.0), 2.1: (None, 2.0), 1.0: (0.9, 1.1), 0.8: (0.9, None)}
    bounds[math.nan] = (1.0, None)
    found = [summed_up("a", "b", [x], least=low, most=high) for x, (low, high) in bounds.items()]
    assert [one.met for one in found] == [True, False, True, False, False]
    suite.write(found, {"machine": "some"}, tmp_path / "results")
    saved = json.loads((tmp_path / "results.json").read_text())["results"]
    assert [one["met"] for one in saved] == [one.met for one in found]


def test_a_report_is_timed_beside_sacrebleu(monkeypatch):
    for name, few in (("RUNS", 2), ("SENTENCES", 20), ("RESAMPLES", 40)):
        monkeypatch.setattr(intervals, name, few)
    [found] = intervals.measure(1)
    assert found.value > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch's, on its own layers
def test_the_contestants_and_peers_of_a_training_step_step():
    size = training.Size("transformer", "verbfinal", 40, 1.0)
    made, rivals = training.contestants(size, 8), training.rivals(size, 8)
    assert [*made] == ["soft", *training.TARGETS]
    assert [*rivals] == ["soft", *peers.PEERS]
    for run in (*made.values(), *rivals.values()):
        run()
    assert training.projections(made["wait_k"]) == training.projections(made["soft"]) > 0
    for run in recurrent.contestants(12, 6, "rnmt_plus").values():
        run()


def test_the_loss_of_the_peers_is_ours():
    config = steps.settings("transformer", "verbfinal", "soft")
    network = steps.model(config).eval()
    given = steps.batch(40, 8, steps.vocabulary(config))
    out = network(given.source, given.source_mask, given.target_input)
    ours = build_objective(config["objective"]).loss(out, given, 0)  # type: ignore[attr-defined]
    theirs = peers.smoothed_loss(out.logits, given.target, config["objective"]["label_smoothing"])
    torch.testing.assert_close(theirs, ours.total / ours.tokens)


@pytest.mark.slow
def test_steps_for_a_gpu_are_the_same_elsewhere(monkeypatch):
    monkeypatch.setattr(gpu_steps, "SIZES", {"transformer": "verbfinal"})
    monkeypatch.setattr(gpu_steps, "LENGTHS", (8,))
    for run in gpu_steps.transformer("transformer", 8, 40, "cpu").values():
        run()
    assert len(gpu_steps.of_size("transformer", 40, "cpu", 1)) == len(gpu_steps.TARGETS)


def test_a_step_with_all_logits_holds_more_than_one_without():
    for run in likelihood.contestants(50, 8, 20).values():
        run()
    ours, other, again = likelihood.peaks("transformer", 2000, 1200)
    assert other - ours > 4 * 2000 * 1200
    assert again < ours


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_every_benchmark_can_be_imported(path):
    importlib.import_module(path.stem)
