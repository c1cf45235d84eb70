"""The papers' analyses, against brute force on made-up runs and against identities."""

from __future__ import annotations

import csv
import random
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from omegaconf import OmegaConf

from made_up import make_run
from simulmt.alignment.links import format_links, known_links
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.studies import STUDIES
from simulmt.analysis.studies.bins import make_bins, measure, reordering_distance
from simulmt.analysis.studies.head_positions import LIMIT, describe, robust_z
from simulmt.analysis.studies.run_set import DecodedTestSet, LinkSource, RunSet
from simulmt.data.corpus import Corpus, Split, oracle_delays
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.files.instances import write_instances
from simulmt.files.run_directory import CONFIG, SCORES
from simulmt.latency import differentiable_average_lagging
from simulmt.programs.analyse import _Reader, analyse
from simulmt.programs.train import train
from simulmt.scoring.score import attention_span, bleu
from simulmt.scoring.scores import Score, Scores
from simulmt.system.disk import read_json, read_record, write_json
from small_runs import SMALL, configuration

SIZES = {"seed": 3, "train": 0, "valid": 0, "test": 60}
SPLIT = verbfinal(**SIZES).splits["test"]


def wait_k(k: int) -> list[Instance]:
    """The reference with a word lost now and then, and one sentence not translated at all."""
    rng, found = random.Random(k), []
    for i, (source, reference) in enumerate(zip(SPLIT.sources, SPLIT.targets, strict=True)):
        words = [word for word in reference.split() if rng.random() > 0.1]
        words = [] if i == 7 else words
        length = len(source.split())
        delays = tuple(min(k + step, length) for step in range(len(words)))
        found.append(Instance(i, source, reference, " ".join(words), delays))
    return found


def oracle() -> list[Instance]:
    rows = enumerate(zip(SPLIT.sources, SPLIT.targets, SPLIT.needs, strict=True))
    return [Instance(i, s, t, t, tuple(oracle_delays(needs))) for i, (s, t, needs) in rows]


def make(folder: Path, name: str, options: dict, instances: list[Instance] = (), **scores) -> Path:
    """A run that has decoded the embedded data."""
    data = {f"data.{key}": value for key, value in SIZES.items()} | {"data.corpus": "verbfinal"}
    data |= {"data.batch_tokens": 1000, "data.subwords": {"size": 200}, "decoding.beam": 1}
    sizes = {"model.decoder_layers": 2, "model.heads": 4}
    run = make_run(folder, name, sizes | data | options, 30, 4)
    if instances:
        write_instances(run / "instances.log", instances)
    path = run / SCORES
    write_json(path, replace(read_record(path, Scores), **scores))
    return run


def study(name: str, runs: Path, *overrides: str) -> list[dict[str, str]]:
    """The rows that it writes."""
    analyse(configuration("analyse", f"study={name}", f"runs={runs}", "device=cpu", *overrides))
    with (runs / "analysis" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def two(tmp_path) -> Path:
    for k in (1, 4):
        delays = {"word": first_delays(k), "subword": {}}
        make(tmp_path / f"k{k}", "wait_k", {"mechanism.k": k}, wait_k(k), initial_delays=delays)
    return tmp_path


def first_delays(k: int) -> Counter:
    return Counter(one.delays[0] for one in wait_k(k) if one.delays)


def test_initial_delays_are_those_of_the_scores(two):
    counts = {"word": {2: 3, 10: 1}, "subword": {5: 4}}
    make(two / "mma", "mma_h", {"lambda": 0.1}, initial_delays=counts)
    rows = study("initial_delay", two)
    found = {(row["name"], int(row["first_delay"])): float(row["share"]) for row in rows}
    expected = {("mma_h lambda=0.1", 2): 0.75, ("mma_h lambda=0.1", 10): 0.25}
    for k in (1, 4):
        first = first_delays(k)
        expected |= {(f"wait_k k={k}", d): n / sum(first.values()) for d, n in first.items()}
    assert found == pytest.approx(expected, rel=1e-12)  # a division each
    (row,) = study("initial_delay", two / "mma", "unit=subword")
    assert (row["first_delay"], row["sentences"], row["share"]) == ("5", "4", "1.0")


def test_a_run_without_an_attention_span_is_named(tmp_path):
    make(tmp_path / "mma", "mma_h", {"lambda_var": 0.1})
    with pytest.raises(UserError, match=r"mma: its scores have no attention span"):
        study("attention_span", tmp_path)


def test_a_line_goes_along_its_axis(tmp_path):
    for weight in (0.0, 0.1):
        for var in (0.5, 0.0, 0.05):
            options = {"lambda": weight, "lambda_var": var}
            span = {"attention_span": Score(3 - var + weight, "span")}
            make(tmp_path / f"{weight}-{var}", "mma_h", options, **span)
    make(tmp_path / "il", "mma_il", {"lambda_var": 0.1}, attention_span=Score(1.0, "span"))
    make(tmp_path / "again", "mma_il", {"lambda_var": 0.1, "seed": 2},
         attention_span=Score(2.0, "span"))  # fmt: skip
    runs = find_runs(tmp_path).runs
    run_set = RunSet(tmp_path, runs, *[pytest.fail] * 3)
    figure = STUDIES["attention_span"](run_set).figure
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    joined = [line for line in figure.axes[0].lines if line.get_marker() == ""]
    found = {n: line.get_xydata().tolist() for n, line in zip(names, joined, strict=True)}
    expected = {
        f"mma_h lambda={w:g}": [[v, 3 - v + w] for v in (0.0, 0.05, 0.5)] for w in (0.0, 0.1)
    }
    assert found == expected | {"mma_il": [[0.1, 1.5]]}


def test_layers_and_heads(tmp_path):
    for layers in (1, 3):
        for heads in (1, 4):
            options = {"model.decoder_layers": layers, "model.heads": heads}
            run = make_run(tmp_path / f"{layers}-{heads}", "mma_h", options, 20 + heads, layers)
    rows = study("layers_heads", tmp_path)
    found = {(r["decoder_layers"], r["heads"], r["BLEU"], r["DAL_word"]) for r in rows}
    expected = {(str(n), str(h), str(20.0 + h), str(float(n))) for n in (1, 3) for h in (1, 4)}
    assert found == expected
    assert study("layers_heads", tmp_path, "unit=subword")[0]["DAL_subword"] == "1.5"
    config = read_json(run / CONFIG)
    del config["model"]["heads"]
    write_json(run / CONFIG, config)
    with pytest.raises(UserError, match=r"3-4: its configuration has no model.heads"):
        study("layers_heads", tmp_path)


@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_bins_part_the_values_and_no_equal_ones(most):
    rng = random.Random(most)
    for size in (1, 2, 30, 400):
        values = [rng.choice((rng.randint(3, 20), 5)) for _ in range(size)]
        bins = make_bins(values, most)
        assert len(bins) <= most
        assert all(sum(value in one for one in bins) == 1 for value in values)
        assert all({one[0], one[-1]} <= {*values} for one in bins)
        assert all(one[-1] < other[0] for one, other in pairwise(bins))
    assert make_bins(range(100), 4) == [range(25 * i, 25 * i + 25) for i in range(4)]


def test_by_length_against_brute_force(two):
    rows = [row for row in study("by_length", two, "bins=3") if row["name"] == "wait_k k=4"]
    assert sum(int(row["sentences"]) for row in rows) == len(SPLIT)
    assert sum(int(row["empty"]) for row in rows) == 1
    for row in rows:
        low, high = int(row["source_words_from"]), int(row["source_words_to"])
        chosen = [one for one in wait_k(4) if low <= len(one.source.split()) <= high]
        texts = [one.prediction for one in chosen], [one.reference for one in chosen]
        assert float(row["BLEU"]) == bleu(*texts).value
        dals = [
            differentiable_average_lagging(
                torch.tensor([one.delays], dtype=torch.float64),
                torch.tensor([one.source_length]),
                torch.tensor([len(one.delays)]),
            ).item()
            for one in chosen
            if one.delays
        ]
        assert float(row["DAL_word"]) == pytest.approx(sum(dals) / len(dals), rel=1e-12)  # sums


def test_reordering_distance_is_the_k_that_wait_k_needs():
    for needs, source in zip(SPLIT.needs, SPLIT.sources, strict=True):
        length = len(source.split())
        enough = [
            k
            for k in range(1, length + 1)
            if all(min(k + i, length) >= need for i, need in enumerate(needs))
        ]
        assert reordering_distance(needs) == min(enough)
    assert reordering_distance([]) == reordering_distance([0, 0]) == 1


def test_the_oracle_has_no_regret(tmp_path):
    make(tmp_path / "oracle", "mma_il", {}, oracle())
    rows = study("by_reordering", tmp_path)
    assert len(rows) > 2
    assert {(row["BLEU"], row["regret_word"]) for row in rows} == {(rows[0]["BLEU"], "0.0")}
    assert float(rows[0]["BLEU"]) == pytest.approx(100)  # a geometric mean of ones
    ends = [(int(r["reordering_distance_from"]), int(r["reordering_distance_to"])) for r in rows]
    for (low, high), row in zip(ends, rows, strict=True):
        assert sum(low <= reordering_distance(n) <= high for n in SPLIT.needs) == int(
            row["sentences"]
        )


def test_the_data_are_those_of_the_training_not_of_the_last_command(tmp_path):
    run = make(tmp_path, "mma_il", {}, oracle())
    trained = read_json(run / CONFIG)
    last = trained | {"data": trained["data"] | {"seed": 4}}
    (run / ".hydra").mkdir()
    (run / ".hydra" / "config.yaml").write_text(yaml.safe_dump(last))
    assert study("by_reordering", run)
    write_json(run / CONFIG, last)
    with pytest.raises(UserError, match="not that of the test"):
        study("by_reordering", run)


def test_a_folder_that_cannot_be_written_is_refused_before_the_study(two, monkeypatch):
    (two / "file").touch()
    monkeypatch.setitem(STUDIES, "by_length", None)
    with pytest.raises(UserError, match=r"file/below cannot be written \(Not a directory\)"):
        study("by_length", two, f"to={two / 'file' / 'below'}")


def test_the_regret_leaves_out_what_was_not_translated():
    instances = wait_k(2)
    row, rest = measure(instances, SPLIT.needs), measure([*instances[:7], *instances[8:]])
    assert (row["sentences"], row["empty"], rest["empty"]) == (60, 1, 0)
    assert row["DAL_word"] == rest["DAL_word"]
    assert row["regret_word"] == row["DAL_word"] - row["oracle_DAL_word"]
    nothing = measure(instances[7:8], SPLIT.needs)
    assert nothing["DAL_word"] is nothing["oracle_DAL_word"] is nothing["regret_word"] is None


def test_other_sentences_than_the_data_hold_are_refused(tmp_path, monkeypatch):
    instances = oracle()
    other = make(tmp_path / "a", "mma_il", {"data.seed": 4}, instances)
    with pytest.raises(UserError, match=r"a: sentence 1 of instances.log is not that of the test"):
        study("by_reordering", other)
    text = Corpus("text", "de", "en", {"test": Split(SPLIT.sources, SPLIT.targets)})
    monkeypatch.setattr("simulmt.programs.analyse._Reader.read", lambda reader, run: text)
    with pytest.raises(UserError, match=r"data=verbfinal has no word alignments.*study=by_length"):
        study("by_reordering", other)


def heads_at(positions: list[list[int]], length: int) -> Instance:
    rows = tuple(map(tuple, positions))
    return Instance(0, "", "", "", (), subword_source_length=length, positions=rows)


def test_head_positions_against_brute_force():
    rng = random.Random(5)
    lengths = [5, 9, 3]
    positions = [[[rng.randint(0, n + 1) for _ in range(5)] for _ in range(n + 2)] for n in lengths]
    instances = [heads_at(p, n) for p, n in zip(positions, lengths, strict=True)]
    rows = describe(DecodedTestSet([*instances, heads_at([], 4)], [2, 3]))
    assert [(row.layer, row.head) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)]
    for h, row in enumerate(rows):
        stood, lags, behind, slowest, alone = [], [], [], [], []
        for sentence, n in zip(positions, lengths, strict=True):
            for i, heads in enumerate(sentence):
                at = [n if p in (0, n + 1) else p for p in heads]
                others = at[:h] + at[h + 1 :]
                stood.append(at[h])
                lags.append(at[h] - i * n / len(sentence))
                behind.append(max(at) - at[h])
                slowest.append(at[h] >= max(others))
                alone.append(at[h] > max(others))
        assert row.subwords == len(stood)
        for key, values in (
            ("position_mean_subword", stood),
            ("lag_mean_subword", lags),
            ("behind_mean_subword", behind),
            ("share_slowest", slowest),
            ("share_alone", alone),
        ):
            assert getattr(row, key) == pytest.approx(sum(values) / len(values), abs=1e-12)  # sums
        assert row.behind_q75_subword == np.quantile(behind, 0.75)


def test_outliers_depend_on_nothing_but_who_stands_apart():
    close = np.array([4.0, 4.1, 4.2, 3.9, 4.05, 4.15])
    assert max(abs(robust_z(close))) < LIMIT
    z = robust_z(np.append(close, 7.0))
    assert z[-1] > LIMIT > max(abs(z[:-1]))
    moved = robust_z(3 * np.append(close, 7.0) - 20)
    np.testing.assert_allclose(moved, z, rtol=1e-9)  # the same up to rounding
    assert not robust_z(np.full(8, 2.5)).any()
    assert [z > LIMIT for z in robust_z(np.array([1.0] * 15 + [2.0]))] == [False] * 15 + [True]
    rows = describe(DecodedTestSet([heads_at([[2, 2, 3, 2, 3, 12]] * 4, 20)], [3, 3]))
    assert [row.outlier for row in rows] == ["", "", "", "", "", "slow"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    options = ["mechanism=mma_h", "lambda_var=0.1", "model.decoder_layers=2", "data.train=100"]
    chosen = [*SMALL, *options, "data.subwords.size=200", f"cache={folder / 'cache'}"]
    config = configuration("train", *chosen)
    (folder / ".hydra").mkdir()
    OmegaConf.save(config, folder / ".hydra" / "config.yaml")
    train(config, str(folder))
    return folder


@pytest.mark.slow
def test_every_study_of_a_run_that_train_wrote(trained, tmp_path):
    texts = {}
    for to in ("a", "b"):
        for name in STUDIES:
            study(name, trained)
            overrides = (f"study={name}", f"runs={trained}", f"to={tmp_path / to}", "device=cpu")
            analyse(configuration("analyse", *overrides))
        texts[to] = {path.name: path.read_bytes() for path in (tmp_path / to).iterdir()}
    assert texts["a"] == texts["b"]
    assert {*texts["a"]} == {f"{n}.{kind}" for n in STUDIES for kind in ("png", "svg", "csv")}
    rows = study("head_positions", trained)
    assert [(row["layer"], row["head"]) for row in rows] == [
        (layer, head) for layer in "12" for head in "12"
    ]
    scores = read_record(trained / SCORES, Scores)
    (span,) = study("attention_span", trained)
    assert float(span["attention_span_subword"]) == scores.attention_span.value
    found = {int(r["first_delay"]): int(r["sentences"]) for r in study("initial_delay", trained)}
    assert found == scores.initial_delays["word"]


@pytest.mark.slow
def test_the_positions_are_those_that_were_scored(trained):
    decoded = _Reader(None, torch.device("cpu")).decode(trained)
    spans = [s for one in decoded.instances if (s := attention_span(one)) is not None]
    mean = read_record(trained / SCORES, Scores).attention_span.value
    assert sum(spans) / len(spans) == pytest.approx(mean, rel=1e-12)  # another order of sums
    assert decoded.heads == [2, 2]


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("spans", [], "study is 'spans'; choose one of initial_delay, attention_span, layers"),
        ("null", [], "study is None; choose one of initial_delay"),
        ("by_length", ["unit=word"], "study=by_length has no option unit; its options are: bins"),
        ("by_length", ["bins=0"], "bins is 0; it must be at least 1"),
        ("by_length", ["bins=few"], "study=by_length.bins is 'few'"),
        ("layers_heads", ["unit=token"], "unit is 'token'; .*word"),
        ("head_positions", [], "head_positions is of one run, .* holds 2; give one, such as k1"),
        ("attention_span", [], "no run in .* has a learned schedule"),
        ("layers_heads", ["device=tpu"], "device is 'tpu'"),
        ("layers_heads", ["to=/dev/null"], "/dev/null cannot be written .* to=DIR"),
    ],
)
def test_bad_choices_end_in_one_line(name, overrides, message, two):
    with pytest.raises(UserError, match=message) as raised:
        study(name, two, *overrides)
    assert "\n" not in str(raised.value)


def test_runs_that_are_not_there_or_do_not_go_together(two, tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        study("by_length", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no finished run"):
        study("by_length", tmp_path / "empty")
    make(two / "soft", "soft", {})
    with pytest.raises(UserError, match="soft reads the whole sentence first"):
        study("head_positions", two / "soft")
    with pytest.raises(UserError, match=r"soft/instances.log: cannot be read"):
        study("by_length", two)
    make(two / "other", "soft", {"data.name": "multi30k_deen"})
    with pytest.raises(UserError, match="were tested on different data"):
        study("initial_delay", two)


def test_the_oracle_predicts_nothing_and_who_reads_nothing_all(tmp_path):
    make(tmp_path / "oracle", "mma_il", {}, oracle())
    blind = [replace(one, delays=(0,) * one.prediction_length) for one in oracle()]
    make(tmp_path / "blind", "wait_k", {}, blind)
    rows = {row["folder"]: row for row in study("absent_present", tmp_path)}
    words = str(sum(len(target.split()) for target in SPLIT.targets))
    for folder, kind, other in (("oracle", "present", "absent"), ("blind", "absent", "present")):
        row = rows[folder]
        assert (row["links"], row["words"], row["unlinked_words"]) == ("data", words, "0")
        assert [row[f"{kind}_{x}"] for x in ("words", "accuracy", "low", "high")] == [
            words, "100.0", "100.0", "100.0",
        ]  # fmt: skip
        assert [row[f"{other}_{x}"] for x in ("words", "accuracy", "low")] == ["0", "", ""]


def test_links_of_a_file_take_the_place_of_those_of_the_data(tmp_path):
    make(tmp_path / "k2", "wait_k", {}, wait_k(2))
    lines = [format_links(known_links(sentence).possible) for sentence in SPLIT.links]
    path = tmp_path / "links.txt"
    path.write_text("\n".join(lines) + "\n")
    (known,) = study("absent_present", tmp_path)
    (given,) = study("absent_present", tmp_path, f"links={path}")
    assert (known.pop("links"), given.pop("links")) == ("data", "file")
    assert known == given
    assert int(known["absent_words"]) > 0
    assert 0 <= float(known["absent_low"]) <= float(known["absent_accuracy"])
    path.write_text("0-0\n")
    with pytest.raises(UserError, match="has 1 lines, the text 60 sentence pairs"):
        study("absent_present", tmp_path, f"links={path}")


def test_without_links_an_aligner_takes_outputs_and_training_text(tmp_path, monkeypatch):
    make(tmp_path / "a", "mma_il", {}, oracle())
    make(tmp_path / "b", "wait_k", {}, wait_k(2))
    train = Split(["x"], ["y"])
    text = Corpus("text", "de", "en", {"train": train, "test": Split(SPLIT.sources, SPLIT.targets)})
    monkeypatch.setattr("simulmt.programs.analyse._Reader.read", lambda reader, run: text)
    lines = dict(zip(SPLIT.targets, SPLIT.links, strict=True))
    asked = []

    def aligned(sources, targets, wanted):
        asked.extend(zip(sources, targets, strict=True))
        return [known_links(lines.get(target, [])).possible for target in targets][:wanted]

    module = sys.modules["simulmt.analysis.studies.absent_present"]  # the function hides it
    monkeypatch.setattr(module, "align_text", aligned)
    rows = {row["folder"]: row for row in study("absent_present", tmp_path)}
    assert {row["links"] for row in rows.values()} == {"aligner"}
    assert rows["a"]["present_accuracy"] == "100.0"
    assert len(asked) == len(set(asked)) <= 121  # the oracle writes the references: only once
    assert asked[-1] == ("x", "y")
    with pytest.raises(UserError, match=r"data=verbfinal has no word alignments.*links=FILE"):
        study("aer", tmp_path)


def test_attention_that_is_right_makes_no_error(tmp_path, monkeypatch):
    make(tmp_path / "a", "mma_il", {})
    gold = [known_links(sentence) for sentence in SPLIT.links]
    looked = {
        LinkSource("attention", 0, 0): [one.possible for one in gold],
        LinkSource("attention", 1, 0): [frozenset() for _ in gold],
        LinkSource("position", 1, 2): [one.sure for one in gold],
    }
    monkeypatch.setattr("simulmt.programs.analyse._Reader.attend", lambda reader, run: looked)
    rows = study("aer", tmp_path)
    assert [(r["what"], r["layer"], r["head"], float(r["AER"])) for r in rows] == [
        ("attention", "all", "all", 0), ("attention", "1", "all", 1), ("position", "1", "2", 0)
    ]  # fmt: skip
