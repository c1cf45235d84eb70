"""The full-sentence teacher: what it adds to the loss, and that none of it is left."""

from __future__ import annotations

import pytest
import torch

import zoo
from simulmt.attention import TRAINED
from simulmt.data.encoded import EncodedSplit
from simulmt.errors import UserError
from simulmt.live.translator import Translator
from simulmt.objective import LatencyAugmented
from simulmt.objective.likelihood import token_losses
from simulmt.objective.teacher import Joint, Pretrained, distance
from simulmt.programs.export import export
from simulmt.programs.train import train
from simulmt.saved import checkpoint
from small_runs import SMALL, configuration
from test_objective import SETTINGS

pytestmark = pytest.mark.usefixtures("no_pictures")


def batch():
    split = EncodedSplit.of([[5, 6, 7], [8]], [[9], [10, 11, 12]], zoo.SPECIAL)
    return split.batch([0, 1])


def models():
    student = zoo.model(zoo.options("wait_k"), average_embedding=True)
    return student, zoo.model(zoo.options("soft"), seed=1, encoder="bidirectional")


def test_the_distance_is_the_formula():
    torch.manual_seed(0)
    student, full = torch.randn(2, 4, 3).double(), torch.randn(2, 4, 3).double()
    mask = batch().source_mask
    expected = sum(
        (student[b, i] - full[b, i]).square().sum().item() / n
        for b, n in enumerate((4, 2))
        for i in range(n)
    )
    # float32 inside
    assert distance(student, full, mask).item() == pytest.approx(expected, rel=1e-6)


def test_a_joint_teacher_and_its_student_are_drawn_to_each_other():
    student, full = models()
    data = batch()
    states = student.encode(data.source, data.source_mask)
    guidance = Joint(full, 0.5)(data, states, student.decode(states, data.target_input))
    own = full(data.source, data.source_mask, data.target_input)
    nll = token_losses(own.states, own.output, data.target, data.target_mask).nll.sum()
    taught = full.encode(data.source, data.source_mask)
    apart = distance(states.states, taught.states, data.source_mask)
    torch.testing.assert_close(guidance.total, nll + 0.5 * apart)
    guidance.total.backward()
    assert full.embedding.weight.grad.abs().sum() > 0
    assert student.encoder[0].self_attention.value.weight.grad.abs().sum() > 0
    assert student.average.project.weight.grad is None, "the averages are not compared"


OFFLINE = ["model.encoder=bidirectional", "decoding.beam=1"]
GUIDED = ["model=incremental_transformer", "mechanism=wait_k", "mechanism.k=2"]


def run(folder, cache, *overrides):
    train(configuration("train", *SMALL, f"cache={cache}", *overrides), str(folder))
    return folder


def written(place):
    """What a model writes on each word it reads."""
    translator = Translator.load(place)
    words = ["der", "alte", "Mann", "sagt", "etwas", "."]
    return [*(translator.read(word) for word in words), translator.finish()]


def test_a_student_leaves_its_teacher_behind(tmp_path, cache):
    joint = run(tmp_path / "joint", cache, *GUIDED, "teacher=joint")
    stored = checkpoint.read_checkpoint(joint / "checkpoints" / "best.ckpt")["state_dict"]
    assert any(name.startswith("objective.teacher.") for name in stored), "or none could resume"
    trained = checkpoint.load(joint)
    model = trained.build()
    assert {*trained.weights} == {*model.state_dict()}
    given_away = tmp_path / "given away"
    export(configuration("export", f"checkpoint={joint}", f"to='{given_away}'"))
    here, there = (written(place) for place in (joint, given_away))
    assert here == there
    assert any(words for words in here)
    columns = (joint / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"train/distance", "train/teacher_nll"} <= {*columns}


def test_a_finished_run_can_teach(tmp_path, cache):
    full = run(tmp_path / "full", cache, "mechanism=soft", *OFFLINE)
    taught = ["teacher=pretrained", f"teacher.checkpoint={full}"]
    run(tmp_path / "student", cache, *GUIDED, *taught, "teacher.lambda_kd=1.0")
    with pytest.raises(UserError, match=r"model.dim=16, but the student has 32"):
        run(tmp_path / "wide", cache, *GUIDED, *taught, "model.dim=32")
    student = ["teacher=pretrained", f"teacher.checkpoint={tmp_path / 'student'}"]
    with pytest.raises(UserError, match=r"teacher.checkpoint=.* which writes before"):
        run(tmp_path / "again", cache, *GUIDED, *student)


def test_a_teacher_that_is_not_trained_has_no_dropout():
    student = zoo.model(zoo.options("wait_k"))
    full = zoo.model(zoo.options("soft"), seed=1, encoder="bidirectional", dropout=0.5)
    states, whole = (each.encode(batch().source, batch().source_mask) for each in (student, full))
    expected = distance(states.states, whole.states, batch().source_mask)
    guidance = Pretrained(full, 0.5).train()(batch(), states, None)
    torch.testing.assert_close(guidance.total, 0.5 * expected)


def test_the_distance_teaches_a_joint_teacher_too():
    student, full = models()
    data, gradients = batch(), []
    states = student.encode(data.source, data.source_mask)
    for lambda_kd in (0.0, 0.5):
        guidance = Joint(full, lambda_kd)(data, states, None)
        weight = full.encoder[0].self_attention.value.weight
        gradients += torch.autograd.grad(guidance.total, weight, retain_graph=True)
    assert (gradients[0] - gradients[1]).abs().max() > 1e-6


def test_a_teacher_adds_nothing_in_validation():
    student, full = models()
    objective, alone = (LatencyAugmented(**SETTINGS, teacher=t) for t in (Joint(full, 0.5), None))
    assert "distance" in objective.train()(student, batch(), TRAINED).per_sentence
    validated = objective.eval()(student, batch(), TRAINED)
    assert validated.total == alone(student, batch(), TRAINED).total
