"""TensorBoard: what a run shows there, read back from its event files; a run that resumes."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from simulmt.files.instances import read_instances
from simulmt.programs.train import train
from simulmt.training.tensorboard import TensorBoard
from small_runs import SMALL, configuration, metrics

CHOSEN = [*SMALL, "mechanism=mma_il", "lambda=0.2", "logger=tensorboard", "ckpt_path=last"]


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"images": 0})
    return events.Reload()


@pytest.fixture(scope="module")
def logged(tmp_path_factory) -> Path:
    """A run that has stopped after its first validation and has resumed there."""
    folder = tmp_path_factory.mktemp("run")
    for more in (["trainer.max_updates=3"], []):
        train(configuration("train", *CHOSEN, f"cache={folder / 'cache'}", *more), str(folder))
    return folder


@pytest.fixture(scope="module")
def events(logged) -> EventAccumulator:
    return read(logged)


def test_figures_are_those_of_the_metrics_file_also_after_a_resume(logged, events):
    rows = metrics(logged)
    names = {*rows[0]} - {"step"}
    assert {*events.Tags()["scalars"]} - {"epoch"} == names
    for name in names:
        shown = [*{event.step: event.value for event in events.Scalars(name)}.items()]
        in_file = [(int(row["step"]), float(row[name])) for row in rows if row[name]]
        assert [step for step, _ in shown] == [step for step, _ in in_file], name
        values = [value for _, value in in_file]
        assert [value for _, value in shown] == pytest.approx(values, rel=1e-4, nan_ok=True)


def test_translations_are_shown_word_for_word(logged, events):
    assert {"valid/samples/text_summary", "test/samples/text_summary"} <= {
        *events.Tags()["tensors"]
    }
    samples = events.Tensors("valid/samples/text_summary")
    assert [event.step for event in samples] == [2, 5]
    (*_, last) = events.Tensors("test/samples/text_summary")
    text = last.tensor_proto.string_val[0].decode()
    head, _, *lines = text.split("\n")
    assert head == "| source | reference | translation | delays |"
    instances = read_instances(logged / "instances.log")
    assert len(lines) == len(instances)
    for line, instance in zip(lines, instances, strict=True):
        shown = [html.unescape(cell.strip()) for cell in line.strip("|").split("|")]
        delays = " ".join(map(str, instance.delays))
        assert shown == [instance.source, instance.reference, instance.prediction, delays]


def test_what_a_resumed_run_does_again_is_shown_once(tmp_path):
    for first, resume_at in ((0, None), (2, 2)):
        logger = TensorBoard(tmp_path, resume_at, None)
        for step in range(first, 4):
            logger.log_metrics({"loss": step + first}, step)
        logger.finalize("failed")
    shown = [(event.step, event.value) for event in read(tmp_path).Scalars("loss")]
    assert shown == [(0, 0), (1, 1), (2, 4), (3, 5)]


def test_markup_in_a_translation_stays_text(tmp_path):
    logger = TensorBoard(tmp_path, None, None)
    evil = "a | b <script>*x*</script> [y](z) `c` & # \\|"
    logger.show_table("t", [["text"], [evil]], 0)
    logger.finalize("failed")
    (shown,) = read(tmp_path).Tensors("t/text_summary")
    *_, row = shown.tensor_proto.string_val[0].decode().split("\n")
    assert not {*row[2:-2]} & {*"|<>*[]()`\\"}
    assert html.unescape(row) == f"| {evil} |"
