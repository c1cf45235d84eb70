"""The teacher of recorded stops: its score, what it reads, and that heads follow it."""

from __future__ import annotations

import json

import pytest
import torch

import zoo
from simulmt.data.corpus import oracle_delays
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.recorded import Recorded
from simulmt.errors import UserError
from simulmt.objective.recorded_stops import RecordedStops, ranked
from simulmt.programs.plain import plain
from simulmt.programs.run_spec import RunSpec
from simulmt.programs.teacher import stops_of
from simulmt.saved import checkpoint
from small_runs import LONGER, SMALL, configuration, metrics, run
from test_teacher import batch

pytestmark = pytest.mark.usefixtures("no_pictures")


def recorded(delays):
    return Recorded(delays=tuple(map(int, delays)))


def test_a_sure_head_is_as_far_as_its_stop():
    mask = torch.tensor([[True] * 5 + [False] * 2])
    stops = torch.tensor([[3, 5, 1, 5]])
    own = [1, 5, 4, 0]  # 0: ran off the end
    alpha = torch.zeros(1, 1, 4, 7)
    for step, place in enumerate(own):
        if place:
            alpha[0, 0, step, place - 1] = 1
    assert ranked(alpha, stops, mask)[0, 0].tolist() == [2, 0, 3, 1]


def test_the_score_is_the_formula():
    torch.manual_seed(0)
    mask = torch.arange(6) < torch.tensor([[6], [4]])
    alpha = torch.rand(2, 3, 4, 6).double().softmax(-1) * 0.9 * mask[:, None, None]
    stops = torch.randint(1, 5, (2, 4))
    found = ranked(alpha, stops, mask)
    for b, h, i in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(4)).tolist():
        places = range(1, int(mask[b].sum()) + 1)
        expected = sum(
            (alpha[b, h, i, :j].sum().item() - (j >= int(stops[b, i]))) ** 2 for j in places
        )
        assert found[b, h, i].item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in zoo.LEARNED if {*name}.isdisjoint("- ")])
def test_heads_come_closer_to_the_stops(name):
    model, data = zoo.fresh(zoo.MECHANISMS[name]), batch()
    teacher = RecordedStops([[2, 4], [1, 1, 2, 2]], 1.0)
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    apart = list[float]()
    for _ in range(60):
        source = model.encode(data.source, data.source_mask)
        translation = model.decode(source, data.target_input)
        guidance = teacher(data, source, translation)
        optimiser.zero_grad()
        (guidance.total + 0 * translation.logits.sum()).backward()  # Adam takes dense gradients
        optimiser.step()
        apart.append(guidance.total.item())
    assert apart[-1] < 0.5 * apart[0]


def test_stops_are_the_last_subwords_of_words(trained_once):
    subwords = checkpoint.load(trained_once()).subwords
    corpus = verbfinal(3, 20, 1, 1).splits["train"]
    for needs, source, target in zip(corpus.needs, corpus.sources, corpus.targets, strict=True):
        delays = oracle_delays(needs)
        one = recorded(delays)
        stops = stops_of("here", subwords, one, source, target)
        words = subwords.source_words(source)
        assert len(stops) == len(subwords.encode_target(target)) + 1
        assert stops[-1] == len(subwords.encode_source(source)) + 1, "EOS has read EOS"
        written = subwords.reference_words(target)
        assert [words.at(stop) for stop in stops[:-1]] == [delays[word - 1] for word in written]
        assert all(stop in words.ends for stop in stops[:-1])
    with pytest.raises(UserError, match=r"here has 2 delays, but the reference has 3 words"):
        stops_of("here", subwords, recorded([1, 1]), "a b", "a b c")


def test_a_stop_is_within_the_source(trained_once):
    """A word that needs no source has read one word, and one that needs more than all has all."""
    subwords = checkpoint.load(trained_once()).subwords
    none, one, two, three = (
        stops_of("here", subwords, recorded([read]), "der Mann", "man") for read in range(4)
    )
    assert none == one != two == three


def lists(path, change=lambda rows: rows):
    """A file of the grammar's own delays of the training pairs of `SMALL`."""
    split = verbfinal(1, 300, 9, 11).splits["train"]
    rows = [
        {"input": source, "output": target, "policy": [*map(int, oracle_delays(needs))]}
        for source, target, needs in zip(split.sources, split.targets, split.needs, strict=True)
    ]
    path.write_text(json.dumps(change(rows)), encoding="utf-8")
    return ["teacher=stops", f"teacher.file={path}"]


def test_a_run_learns_when_to_write(tmp_path, cache, capsys):
    given = [*lists(tmp_path / "stops.json"), "teacher.weight=30", "mechanism.noise=0"]
    run(tmp_path / "run", cache, "lambda=0", *LONGER, *given)
    apart = [float(row["train/stops"]) for row in metrics(tmp_path / "run") if row["train/stops"]]
    assert sum(apart[-5:]) < 0.75 * sum(apart[:5])  # batches are small
    assert "latency is not penalised" not in capsys.readouterr().err
    stored = checkpoint.read_checkpoint(tmp_path / "run/checkpoints/best.ckpt")["state_dict"]
    assert not any("teacher" in name for name in stored), "the file has the stops"


def drop_a_word(rows):
    return [*rows[:7], {**rows[7], "policy": rows[7]["policy"][1:]}, *rows[8:]]


WRONG = {
    "another length": (lambda rows: rows[1:], r"has 299 sentences, the text 300"),
    "another text": (lambda rows: [rows[1], rows[0], *rows[2:]], r"sentence 1: its source is"),
    "another reference": (drop_a_word, r"sentence 8 has \d+ delays, but the reference has"),
}


@pytest.mark.parametrize("name", WRONG)
def test_stops_of_another_text_are_rejected(name, tmp_path, cache):
    change, message = WRONG[name]
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", cache, *lists(tmp_path / "stops.json", change))
    assert not (tmp_path / "run").exists()


def test_what_cannot_follow_is_rejected_before_any_work(tmp_path, cache):
    given = lists(tmp_path / "stops.json")
    for overrides, message in (
        (["mechanism=wait_k", "lambda=0"], r"mechanism=wait_k, whose decisions have no gradient"),
        (["data.documents=true"], r"is of single sentences: set data.documents=false"),
        ([f"teacher.file={tmp_path}/no.json"], r"no.json does not exist: write it with simulmt"),
    ):
        with pytest.raises(UserError, match=message):
            RunSpec.of(
                plain(configuration("train", *SMALL, "mechanism=mma_il", *given, *overrides))
            )


def test_the_guidance_is_the_mean_over_heads_layers_and_tokens_of_each_pair():
    """Each pair has its own stops, wherever it is in the batch."""
    stops, model, data = [[2, 4], [1], [1, 1, 2, 2]], zoo.model(zoo.options("mma_il")), batch()
    data = data._replace(index=torch.tensor([0, 2]))
    found = model.decode(model.encode(data.source, data.source_mask), data.target_input)
    guidance = RecordedStops(stops, 0.5)(data, None, found)
    expected = 0.0
    for row, own in enumerate((stops[0], stops[2])):
        given = torch.tensor([own]), data.source_mask[row : row + 1]
        heads = [ranked(alpha[row : row + 1, :, : len(own)], *given) for alpha in found.alphas]
        expected += torch.cat(heads, 1).mean().item()
    assert guidance.per_sentence["stops"].item() == pytest.approx(expected)
    assert guidance.total.item() == pytest.approx(0.5 * expected)
