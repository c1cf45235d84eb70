"""The papers' analyses, against brute force on made-up runs and against identities."""

import csv
import random
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from made_up import OWN, evaluate_run, make_run
from simulmt.alignment.links import format_links, known_links
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.studies import STUDIES, word_links
from simulmt.analysis.studies.bins import make_bins, measure, reordering_distance
from simulmt.analysis.studies.forced import LinkSource
from simulmt.analysis.studies.head_positions import LIMIT, describe, robust_z
from simulmt.analysis.studies.run_set import RunSet
from simulmt.data.corpus import Corpus, Split, oracle_delays
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.instance import Instance
from simulmt.decoding.writing import Writing
from simulmt.errors import UserError
from simulmt.files.instances import write_instances
from simulmt.files.run_directory import SCORES
from simulmt.latency import differentiable_average_lagging
from simulmt.programs.analyse import analyse
from simulmt.scoring.score import attention_span, bleu
from simulmt.scoring.scores import Score, Scores
from simulmt.system.disk import read_record, write_json
from small_runs import configuration

SIZES = {"seed": 3, "train": 0, "valid": 0, "test": 60}
SPLIT = verbfinal(**SIZES).splits["test"]
OTHER = {"train": Split(["x"], ["y"]), "test": Split(SPLIT.sources, SPLIT.targets)}
TEXT = Corpus("text", "de", "en", OTHER)
"""The same sentences, of which no alignment is known."""


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
    """A run that has decoded the built-in data."""
    data = {f"data.{key}": value for key, value in SIZES.items()} | {"data.corpus": "verbfinal"}
    data |= {"data.batch_tokens": 1000, "data.subwords": {"size": 200}, "decoding.beam": 1}
    sizes = {"model.decoder_layers": 2, "model.heads": 4}
    run = make_run(folder, name, sizes | data | options, 30, 4)
    if instances:
        write_instances(run / "instances.log", instances)
        scores["sentences"] = len(instances)
    write_json(run / SCORES, replace(read_record(run / SCORES, Scores), **scores))
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


def runs_of(folder: Path) -> RunSet:
    return RunSet(folder, find_runs(folder).runs)


def test_a_line_goes_along_its_axis(tmp_path):
    for weight in (0.0, 0.1):
        for var in (0.5, 0.0, 0.05):
            options = {"lambda": weight, "lambda_var": var}
            span = Score(3 - var + weight, "span")
            make(tmp_path / f"{weight}-{var}", "mma_h", options, attention_span=span)
    for seed in (1, 2):
        options = {"lambda_var": 0.1, "seed": seed}
        make(tmp_path / f"{seed}", "mma_il", options, attention_span=Score(float(seed), "span"))
    figure = STUDIES["attention_span"](runs_of(tmp_path)).figure
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    joined = [line for line in figure.axes[0].lines if line.get_marker() == ""]
    found = {n: line.get_xydata().tolist() for n, line in zip(names, joined, strict=True)}
    expected = {
        f"mma_h lambda={w:g}": [[v, 3 - v + w] for v in (0.0, 0.05, 0.5)] for w in (0.0, 0.1)
    }
    assert found == expected | {"mma_il": [[0.1, 1.5]]}
    make(tmp_path / "none", "mma_h", {"lambda_var": 0.1})
    with pytest.raises(UserError, match=r"none: .*attention span"):
        study("attention_span", tmp_path)


def test_layers_and_heads(tmp_path):
    sizes = [(layers, heads) for layers in (1, 3) for heads in (1, 4)]
    for layers, heads in sizes:
        options = {"model.decoder_layers": layers, "model.heads": heads}
        make_run(tmp_path / f"{layers}-{heads}", "mma_h", options, 20 + heads, layers)
    rows = study("layers_heads", tmp_path)
    found = {(r["decoder_layers"], r["heads"], r["BLEU"], r["DAL_word"]) for r in rows}
    assert found == {(str(n), str(h), str(20.0 + h), str(float(n))) for n, h in sizes}
    assert study("layers_heads", tmp_path, "unit=subword")[0]["DAL_subword"] == "1.5"


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
        dals = []
        for one in (one for one in chosen if one.delays):
            lengths = torch.tensor([one.source_length]), torch.tensor([len(one.delays)])
            delays = torch.tensor([one.delays], dtype=torch.float64)
            dals.append(differentiable_average_lagging(delays, *lengths).item())
        assert float(row["DAL_word"]) == pytest.approx(sum(dals) / len(dals), rel=1e-12)  # sums


def test_reordering_distance_is_the_k_that_wait_k_needs():
    for needs, source in zip(SPLIT.needs, SPLIT.sources, strict=True):
        length = len(source.split())
        ks = range(1, length + 1)
        enough = [k for k in ks if all(min(k + i, length) >= n for i, n in enumerate(needs))]
        assert reordering_distance(needs) == min(enough)
    assert reordering_distance([]) == reordering_distance([0, 0]) == 1


def test_the_oracle_has_no_regret(tmp_path):
    make(tmp_path / "oracle", "mma_il", {}, oracle())
    rows = study("by_reordering", tmp_path)
    assert len(rows) > 2
    assert {(row["BLEU"], row["regret_word"]) for row in rows} == {(rows[0]["BLEU"], "0.0")}
    assert float(rows[0]["BLEU"]) == pytest.approx(100)  # a geometric mean of ones
    distances = [reordering_distance(needs) for needs in SPLIT.needs]
    for row in rows:
        low, high = (int(row[f"reordering_distance_{end}"]) for end in ("from", "to"))
        assert sum(low <= distance <= high for distance in distances) == int(row["sentences"])


def test_the_regret_leaves_out_what_was_not_translated():
    instances = wait_k(2)
    row, rest = measure(instances, SPLIT.needs), measure([*instances[:7], *instances[8:]])
    assert (row["sentences"], row["empty"], rest["empty"]) == (60, 1, 0)
    assert row["DAL_word"] == rest["DAL_word"]
    assert row["regret_word"] == row["DAL_word"] - row["oracle_DAL_word"]
    nothing = measure(instances[7:8], SPLIT.needs)
    assert nothing["DAL_word"] is nothing["oracle_DAL_word"] is nothing["regret_word"] is None


def test_other_sentences_than_the_data_hold_are_an_error(tmp_path, monkeypatch):
    other = make(tmp_path / "a", "mma_il", {"data.seed": 4}, oracle())
    with pytest.raises(UserError, match=r"a: instances\.log is not of the run.s test set"):
        study("by_reordering", other)
    monkeypatch.setattr(RunSet, "data", TEXT)
    with pytest.raises(UserError, match=r"data=verbfinal.*study=by_length"):
        study("by_reordering", other)


def test_a_log_that_lacks_sentences_is_an_error(two):
    log = two / "k4" / "instances.log"
    log.write_text("".join(log.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    with pytest.raises(UserError, match=r"k4: instances\.log has 59 of 60 sentences"):
        study("by_length", two)


def heads_at(positions: list[list[int]], length: int) -> Instance:
    rows = tuple(map(tuple, positions))
    return Instance(0, "", "", "", (), subword_source_length=length, positions=rows)


def test_head_positions_against_brute_force():
    rng = random.Random(5)
    lengths = [5, 9, 3]
    positions = [[[rng.randint(0, n + 1) for _ in range(5)] for _ in range(n + 2)] for n in lengths]
    instances = [heads_at(p, n) for p, n in zip(positions, lengths, strict=True)]
    rows = describe([*instances, heads_at([], 4)], [2, 3])
    assert [(row["layer"], row["head"]) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)]
    for h, row in enumerate(rows):
        found = defaultdict(list)
        for sentence, n in zip(positions, lengths, strict=True):
            for i, heads in enumerate(sentence):
                at = [n if p in (0, n + 1) else p for p in heads]
                others = at[:h] + at[h + 1 :]
                found["position_mean_subword"].append(at[h])
                found["lag_mean_subword"].append(at[h] - i * n / len(sentence))
                found["behind_mean_subword"].append(max(at) - at[h])
                found["share_slowest"].append(at[h] >= max(others))
                found["share_alone"].append(at[h] > max(others))
        assert row["subwords"] == len(found["share_alone"])
        for key, values in found.items():
            assert row[key] == pytest.approx(sum(values) / len(values), abs=1e-12)  # sums
        assert row["behind_q75_subword"] == np.quantile(found["behind_mean_subword"], 0.75)


def test_outliers_depend_on_nothing_but_who_stands_apart():
    close = np.array([4.0, 4.1, 4.2, 3.9, 4.05, 4.15])
    assert max(abs(robust_z(close))) < LIMIT
    z = robust_z(np.append(close, 7.0))
    assert z[-1] > LIMIT > max(abs(z[:-1]))
    moved = robust_z(3 * np.append(close, 7.0) - 20)
    np.testing.assert_allclose(moved, z, rtol=1e-9)  # the same up to rounding
    assert not robust_z(np.full(8, 2.5)).any()
    rows = describe([heads_at([[2, 2, 3, 2, 3, 12]] * 4, 20)], [3, 3])
    assert [row["outlier"] for row in rows] == ["", "", "", "", "", "slow"]


@pytest.fixture
def trained(trained_once, tmp_path) -> Path:
    options = ["lambda_var=0.1", "model.decoder_layers=2", "data.train=100"]
    run = trained_once("mechanism=mma_h", *options, "data.subwords.size=200")
    return Path(shutil.copytree(run, tmp_path / "run"))


@pytest.mark.slow
def test_every_study_of_a_run_that_train_wrote(trained, tmp_path):
    texts = []
    for to in ("a", "b"):
        for name in STUDIES:
            choices = (f"study={name}", f"runs={trained}", f"to={tmp_path / to}", "device=cpu")
            analyse(configuration("analyse", *choices))
        texts.append({path.name: path.read_bytes() for path in (tmp_path / to).iterdir()})
    assert texts[0] == texts[1]
    assert {*texts[0]} == {f"{n}.{kind}" for n in STUDIES for kind in ("png", "svg", "csv")}
    rows = study("head_positions", trained)
    assert [row["layer"] + row["head"] for row in rows] == ["11", "12", "21", "22"]
    assert {row["name"] for row in rows} == {"mma_h lambda=0 lambda_var=0.1"}
    scores = read_record(trained / SCORES, Scores)
    (span,) = study("attention_span", trained)
    assert float(span["attention_span_subword"]) == scores.attention_span.value
    found = {int(r["first_delay"]): int(r["sentences"]) for r in study("initial_delay", trained)}
    assert found == scores.initial_delays["word"]
    instances, heads = runs_of(trained).decode(runs_of(trained).runs[0])
    spans = [s for one in instances if (s := attention_span(one)) is not None]
    # another order of sums
    assert sum(spans) / len(spans) == pytest.approx(scores.attention_span.value, rel=1e-12)
    assert heads == [2, 2]


@pytest.mark.parametrize(
    ("name", "overrides", "values"),
    [
        ("spans", [], "study is 'spans'"),
        ("by_length", ["unit=word"], r"option unit.*bins"),
        ("head_positions", [], r"head_positions.*holds 2"),
        ("attention_span", [], "learned"),
        ("layers_heads", ["to=/dev/null"], "to is /dev/null, a device"),
        ("faithfulness", ["links=a", "aligner=b"], "links=a and aligner=b: give one"),
    ],
)
def test_bad_choices_end_in_one_line(name, overrides, values, two):
    with pytest.raises(UserError, match=values) as error:
        study(name, two, *overrides)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["initial_delay", "head_positions"])
def test_runs_that_wrote_nothing(name, tmp_path):
    none = {"initial_delays": {"word": {}, "subword": {}}, "empty": 10}
    make(tmp_path, "mma_h", {}, **none)
    with pytest.raises(UserError, match=f"runs={tmp_path}: no translation has a word.*longer"):
        study(name, tmp_path)


def test_heads_of_a_clock_do_not_stop(trained_once):
    run = trained_once("mechanism=wait_k", "data.train=100", "data.subwords.size=200")
    with pytest.raises(UserError, match="the heads of wait_k do not stop; give a run of mma_h"):
        study("head_positions", run)


def test_runs_that_do_not_go_together(two):
    make(two / "soft", "soft", {})
    for name, folder, value in (
        ("head_positions", two / "soft", "soft"),
        ("by_length", two, r"soft/instances\.log"),
    ):
        with pytest.raises(UserError, match=value):
            study(name, folder)
    make(two / "other", "soft", {"data.name": "multi30k_deen"})
    with pytest.raises(UserError, match="different data"):
        study("initial_delay", two)


def test_the_oracle_predicts_nothing_and_who_reads_nothing_all(tmp_path):
    make(tmp_path / "oracle", "mma_il", {}, oracle())
    blind = [replace(one, delays=(0,) * one.prediction_length) for one in oracle()]
    make(tmp_path / "blind", "wait_k", {}, blind)
    rows = {row["folder"]: row for row in study("absent_present", tmp_path)}
    words = str(sum(len(target.split()) for target in SPLIT.targets))
    full, none = [words, "100.0", "100.0", "100.0"], ["0", "", "", ""]
    for folder, present, absent in (("oracle", full, none), ("blind", none, full)):
        row = rows[folder]
        assert (row["links"], row["words"], row["unlinked_words"]) == ("data", words, "0")
        for kind, expected in (("present", present), ("absent", absent)):
            found = [row[f"{kind}_{x}"] for x in ("words", "accuracy", "low", "high")]
            assert found == expected


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


def test_without_links_an_aligner_takes_outputs_and_training_text(tmp_path, monkeypatch):
    make(tmp_path / "a", "mma_il", {}, oracle())
    make(tmp_path / "b", "wait_k", {}, wait_k(2))
    monkeypatch.setattr(RunSet, "data", TEXT)
    lines = dict(zip(SPLIT.targets, SPLIT.links, strict=True))
    asked = []

    def aligned(sources, targets, wanted):
        asked.extend(zip(sources, targets, strict=True))
        return [known_links(lines.get(target, [])).possible for target in targets][:wanted]

    monkeypatch.setattr(word_links, "align_text", aligned)
    rows = {row["folder"]: row for row in study("absent_present", tmp_path)}
    assert {row["links"] for row in rows.values()} == {word_links.ALIGNER}
    assert rows["a"]["present_accuracy"] == "100.0"
    assert len(asked) == len(set(asked)) <= 121  # the oracle writes the references: only once
    assert asked[-1] == ("x", "y")
    with pytest.raises(UserError, match=r"data=verbfinal.*links=FILE"):
        study("aer", tmp_path)


def test_attention_that_is_right_makes_no_error(tmp_path, monkeypatch):
    make(tmp_path / "a", "mma_il", {})
    gold = [known_links(sentence) for sentence in SPLIT.links]
    looked = {
        LinkSource("attention", 0, 0): [one.possible for one in gold],
        LinkSource("attention", 1, 0): [frozenset() for _ in gold],
        LinkSource("position", 1, 2): [one.sure for one in gold],
    }
    monkeypatch.setattr(RunSet, "attend", lambda *_: looked)
    found = [(r["what"], r["layer"], r["head"], float(r["AER"])) for r in study("aer", tmp_path)]
    assert found[:2] == [("attention", "all", "all", 0), ("attention", "1", "all", 1)]
    assert found[2:] == [("position", "1", "2", 0)]


def forced_at(k: int) -> list[Instance]:
    """The references, written by wait-k."""
    lengths = [len(source.split()) for source in SPLIT.sources]
    pairs = enumerate(zip(SPLIT.sources, SPLIT.targets, lengths, strict=True))
    return [
        Instance(i, x, y, y, tuple(min(k + t, n) for t in range(len(y.split()))))
        for i, (x, y, n) in pairs
    ]


def test_the_oracle_is_faithful_and_wait_1_guesses(tmp_path, monkeypatch):
    make(tmp_path / "oracle", "mma_il", {"lambda": 0.1}, oracle())
    make(tmp_path / "one", "wait_k", {"mechanism.k": 1}, forced_at(1))
    forced = {"oracle": oracle(), "one": forced_at(1)}
    monkeypatch.setattr(RunSet, "force", lambda _, run: forced[run.folder])
    found = study("faithfulness", tmp_path)
    rows = {(row["folder"], row["of"]): row for row in found}
    assert rows.keys() == {(name, of) for name in forced for of in ("output", "reference")}
    for (name, of), row in rows.items():
        # both write the references, so outputs have the links and delays of the references
        assert row["signature"].startswith(f"SUF|a:data|l:possible|m:max|of:{of}|u:word")
        assert (float(row["sufficiency"]) == 100) == (name == "oracle")
        assert row["necessity"] == rows[name, "output"]["necessity"]
        assert row["hallucination"] == "0.0"
        guessed = 100 - float(rows["one", of]["sufficiency"])
        assert float(row["AR1"]) == pytest.approx(guessed, abs=1e-9)  # sums
    sure = study("faithfulness", tmp_path, "strength=sure", "several=min")
    assert "|l:sure|m:min|" in sure[0]["signature"]
    assert float(sure[0]["hallucination"]) > 0  # words with several source words have no sure link


def test_the_attention_of_a_run_links_words(trained):
    reader = runs_of(trained)
    split = reader.data.splits["test"]
    pairs = [*zip(split.sources, split.targets, strict=True)]
    attended = reader.attend(reader.runs[0])[LinkSource("attention", 0, 0)]
    assert reader.link(trained, [*pairs, ("", "a"), pairs[2]]) == [*attended, set(), attended[2]]
    scores = replace(reader.runs[0].scores, writing=Writing(source=True))
    other = replace(reader.runs[0], scores=scores)
    with pytest.raises(
        UserError, match=r"has data.characters=\[\], the runs have \['source'\]: give"
    ):
        replace(reader, runs=[other]).link(trained, pairs)
    rows = study("faithfulness", trained, f"aligner={trained}")
    assert [row["of"] for row in rows] == ["output", "reference"]
    assert {row["signature"].split("|")[1] for row in rows} == {f"a:{trained.name}"}
    assert {row["AR9"] for row in rows} != {""}


def test_evaluations_by_a_policy_are_systems_too(two, monkeypatch):
    run = two / "k4"
    own = read_record(run / SCORES, Scores)
    write_json(run / SCORES, replace(own, decoding=OWN))
    folder = evaluate_run(run, "hold", own, policy={"name": "hold_n", "n": 2})
    write_instances(folder / "instances.log", wait_k(2))
    early = evaluate_run(run, "early", replace(own, decoding=OWN), dials={"k": 2})  # sorted first
    write_instances(early / "instances.log", wait_k(2))
    monkeypatch.setattr(RunSet, "force", lambda *_: forced_at(4))
    rows = study("faithfulness", two, "decodings=true")
    times = Counter(row["folder"].rpartition("/")[2] for row in rows)
    assert times == {"k1": 2, "k4": 2, "hold": 1, "early": 1}  # evaluations are not forced
