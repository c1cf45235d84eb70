"""The oracle of an offline model, against loops over prefixes, words and steps."""

from __future__ import annotations

import csv
import math
import shutil
from pathlib import Path

import pytest
import torch

import zoo
from characters import options, write_corpus
from simulmt.attention.clocks.wait_k import LONGEST
from simulmt.decoding.contextual_stops import PrefixLikelihoods, prefix_likelihoods
from simulmt.decoding.word_map import WordMap
from simulmt.errors import UserError
from simulmt.files.instances import read_instances, read_lists
from simulmt.models.model import Model
from simulmt.programs.evaluate import evaluate
from simulmt.programs.oracle import oracle
from small_runs import LONGER, configuration

TARGETS = [[5, 9, 6, 7, 8], [6, 5], [7]]
WORDS = [WordMap((1, 1, 2, 3, 3)), WordMap((1, 2)), WordMap((1,))]


@torch.inference_mode()
def literal(made: Model, prefix: torch.Tensor, target: list[int]) -> list[float]:
    """The log-likelihood of each token, step by step, given a prefix alone."""
    mask = torch.ones_like(prefix[None]).bool()
    state, found = made.start(made.encode(prefix[None], mask)), []
    for before, token in zip([made.vocabulary.bos, *target], target, strict=False):
        step = made.step(torch.tensor([before]), state)
        found.append(step.logits.log_softmax(-1)[0, token].item())
        state = step.state
    return found


@pytest.mark.parametrize(
    ("name", "kind", "sizes"),
    [
        ("soft", "transformer", {"encoder": "bidirectional"}),
        ("soft", "transformer", {"encoder": "causal"}),
        ("luong_global", "luong", {}),
        ("wait_k", "transformer", {}),
        ("multi_path", "rnmt_plus", {}),
    ],
)
def test_likelihoods_of_all_prefixes_are_those_of_each_alone(
    name: str, kind: str, sizes: dict
) -> None:
    chosen = zoo.MECHANISMS[name]
    made = zoo.model(chosen | {"k": LONGEST} if "k" in chosen else chosen, kind=kind, **sizes)
    source, mask = zoo.sentences(3, 8)
    target = torch.tensor([[*row, zoo.EOS, *[zoo.PAD] * (5 - len(row))] for row in TARGETS])
    begins = torch.full_like(target[:, :1], zoo.BOS)
    inputs = torch.cat([begins, target[:, :-1]], 1)
    found = prefix_likelihoods(made, source, mask, inputs, target, WORDS)
    for n, (one, row, words) in enumerate(zip(found, TARGETS, WORDS, strict=True)):
        length = int(mask[n].sum())
        ends = [e for e in range(1, length) if made.begins[source[n, e]] or e + 1 == length]
        assert one.ends.tolist() == [*ends, length]
        for end, likely in zip([*ends, length], one.words.tolist(), strict=True):
            tokens = literal(made, source[n, :end], row)
            sums = [
                sum(p for p, word in zip(tokens, words, strict=True) if word == number)
                for number in range(1, max(words) + 1)
            ]
            assert likely == pytest.approx(sums, abs=1e-9), "float64: rounding only"


def test_stops_are_the_first_prefix_that_suffices_and_never_fall() -> None:
    words = torch.tensor([[-3.0, -9.0, -0.1], [-1.0, -2.0, -0.2], [-0.5, -1.0, -0.1]]).double()
    likely = PrefixLikelihoods(torch.tensor([2, 3, 4]), words)
    for epsilon, stops in ((0.0, [4, 4, 4]), (0.5, [3, 4, 4]), (1.0, [3, 3, 3]), (8.0, [2] * 3)):
        assert likely.stops(epsilon) == stops
        for word, column in enumerate(words.T.tolist()):
            pairs = zip([2, 3, 4], column, strict=True)
            assert next(e for e, p in pairs if p >= column[-1] - epsilon) <= stops[word]
    assert PrefixLikelihoods(torch.tensor([2]), torch.zeros(1, 0)).stops(1) == []


@pytest.fixture(scope="module")
def soft(trained_once, tmp_path_factory) -> Path:
    run = trained_once(*LONGER, "mechanism=soft", "model.encoder=bidirectional")
    return Path(shutil.copytree(run, tmp_path_factory.mktemp("copy") / "run"))


@pytest.mark.usefixtures("no_pictures")
def test_the_oracle_of_a_run_can_be_replayed(soft: Path) -> None:
    oracle(configuration("oracle", f"checkpoint={soft}", "device=cpu", "epsilon=[0.1,100]"))
    with (soft / "oracle" / "test.csv").open() as file:
        small, large = csv.DictReader(file)
    assert float(small["DAL"]) > float(large["DAL"])
    patient = soft / "oracle" / "test-epsilon0.1.json"
    hasty = read_lists(soft / "oracle" / "test-epsilon100.json")
    assert {delay for one in hasty for delay in one.delays} == {1}, "any prefix is good enough"
    log = read_instances(soft / "instances.log")
    lists = read_lists(patient)
    assert [one.prediction for one in lists] == [one.reference for one in log]
    assert all([*one.delays] == sorted(one.delays) for one in lists)
    evaluate(
        configuration(
            "evaluate",
            f"checkpoint={soft}",
            "device=cpu",
            "policy=from_file",
            f"policy.file={patient}",
        )
    )


@pytest.mark.usefixtures("no_pictures")
def test_the_oracle_of_other_text_counts_characters(trained_once, tmp_path: Path) -> None:
    folder = write_corpus(tmp_path)
    run = trained_once(*options(folder, "source", "target"), "mechanism=soft", "decoding.beam=1")
    files = [f"source={folder / 'test.zh'}", f"target={folder / 'test.ja'}"]
    asked = ["oracle", f"checkpoint={run}", "device=cpu", "epsilon=1"]
    oracle(configuration(*asked, f"to={tmp_path / 'split'}"))
    oracle(configuration(*asked, *files, f"to={tmp_path / 'files'}"))
    one, other = (tmp_path / name / "test-epsilon1.json" for name in ("split", "files"))
    assert one.read_bytes() == other.read_bytes()
    (tmp_path / "b").mkdir()
    for side in ("zh", "ja"):
        (tmp_path / "b" / f"test.{side}").write_text("好\n", encoding="utf-8")
    others = [f"source={tmp_path}/b/test.zh", f"target={tmp_path}/b/test.ja"]
    with pytest.raises(UserError, match=r"test-epsilon1\.json has .* sentences, the text 1"):
        oracle(configuration(*asked, *others, f"to={tmp_path / 'files'}"))
    with pytest.raises(UserError, match="say where the lists of this text go, with to=DIR"):
        oracle(configuration(*asked, *files))
    with pytest.raises(UserError, match="data_root=x is for the model's own data"):
        oracle(configuration(*asked, *files, "to=x", "data_root=x"))
    other_checkpoint = tmp_path / "checkpoints" / "mine.ckpt"
    other_checkpoint.parent.mkdir()
    shutil.copy(run / "checkpoints" / "best.ckpt", other_checkpoint)
    oracle(configuration(asked[0], f"checkpoint={other_checkpoint}", *asked[2:]))
    lists = tmp_path / "oracle" / "test-mine-epsilon1.json"
    assert lists.read_bytes() == one.read_bytes()


def test_it_needs_an_offline_model(trained_once, tmp_path: Path) -> None:
    for name in ("mma_il", "luong_local_m"):  # whose window sees only a part of a prefix
        run = trained_once(*LONGER, f"mechanism={name}")
        with pytest.raises(UserError, match=f"mechanism={name}, which cannot be given all"):
            oracle(configuration("oracle", f"checkpoint={run}", f"to={tmp_path}", "device=cpu"))
    with pytest.raises(UserError, match="give both, or neither"):
        oracle(configuration("oracle", "checkpoint=x", "source=a"))
    with pytest.raises(UserError, match="epsilon"):
        oracle(configuration("oracle", "checkpoint=x", f"epsilon={-math.pi}"))
