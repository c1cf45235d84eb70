"""The verb `score`: its files, its figures beside OmniSTEval's, and its mistakes in one line."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from backports import zstd

from commands import omnisteval
from golden import golden_lines, golden_text, needs_golden
from simulmt.data.docids import read_docids
from simulmt.decoding.stream_instance import Boundary, StreamInstance
from simulmt.errors import UserError
from simulmt.files.instances import write_streams
from simulmt.programs.score import score
from simulmt.scoring.degeneracy import OMNISTEVAL
from small_runs import configuration

PRINTED = 5e-5 * 1.01  # OmniSTEval prints four digits
SOURCES = ["eins zwei drei", "vier fünf", "sechs sieben acht neun", "zehn elf"]
REFERENCES = ["One two, three.", "Four five.", "Six seven (eight) nine - now.", "Ten eleven!"]
IDS = ["ted.1", "ted.1", "ted.2", "ted.2"]
INSTANCES = [
    StreamInstance(
        "ted.1",
        "One two three. For fife.",
        (1, 2, 3, 5, 5),
        (1.5, 2.75, 4, 6.5, 6.5),
        (Boundary(3, 3, 5),),
    ),
    StreamInstance(
        "ted.2", "Sixth seven eight, nine ten eleven", (1, 2, 4, 4, 6, 6), (2, 4, 6.5, 6.75, 9, 9.5)
    ),
]


@pytest.fixture
def files(tmp_path) -> Path:
    """A folder with a log of two documents and their text."""
    for name, lines in {"src": SOURCES, "ref": REFERENCES, "ref.docid": IDS}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_streams(tmp_path / "instances.log", INSTANCES)
    return tmp_path


def run(folder: Path, *overrides: str, texts: bool = True) -> dict:
    words = [f"source={folder}/src", f"documents={folder}/ref.docid"] if texts else []
    given = [f"log={folder}/instances.log", f"references={folder}/ref", *words, *overrides]
    score(configuration("score", *given))
    return json.loads((folder / "instances.scores.json").read_text("utf-8"))


def values(figures: dict) -> dict[str, float]:
    return {name: figure["value"] for name, figure in figures.items()}


def test_it_prints_and_writes_every_family(files, capsys):
    found = run(files)
    assert [*found] == ["streaming", "longyaal", "streamlaal", "boundaries"]
    assert values(found["boundaries"]) == {
        "precision": 100,
        "recall": 50,
        "F1": pytest.approx(200 / 3),
        "read_beyond": 2,
    }
    printed = capsys.readouterr().out
    for family in found.values():
        for figure in family.values():
            assert figure["signature"] in printed
    only = run(files, "convention=streamlaal", "s=0.5")
    assert [*only] == ["streamlaal", "boundaries"]
    assert only["streamlaal"] == found["streamlaal"]


def segmentation(word: float) -> str:
    """The same segments in OmniSTEval's file, with so many seconds for each source word."""
    entries, starts = [], {}
    for name, source in zip(IDS, SOURCES, strict=True):
        start, length = starts.get(name, 0), len(source.split())
        starts[name] = start + length
        place = {"wav": f"wavs/{name}.wav", "offset": start * word, "duration": length * word}
        entries.append({**place, "speaker_id": "x"})
    return json.dumps(entries)


def in_milliseconds(folder: Path) -> None:
    """Replace the log by one in which a source word lasts a second."""
    rows = [json.loads(line) for line in (folder / "instances.log").read_text().splitlines()]
    for row in rows:
        row["source"] = [f"other/{row['source']}.wav", "16000 Hz"]
        row |= {key: [1000 * time for time in row[key]] for key in ("delays", "elapsed")}
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "instances.log").write_text(text)
    (folder / "ref.yaml").write_text(segmentation(1))


def test_milliseconds_are_words_in_another_unit(files):
    words = run(files)
    in_milliseconds(files)
    ms = run(files, f"segmentation={files}/ref.yaml", texts=False)
    assert "boundaries" not in ms
    for convention, figures in ms.items():
        for name, found in values(figures).items():
            scale = 1 if name in {"BLEU", "chrF"} or "AP" in name else 1000
            assert found == pytest.approx(scale * words[convention][name]["value"], abs=1e-6)


def test_omnisteval_finds_the_same_in_our_log(files):
    """Its own command, on a log of ours with a second for each source word."""
    in_milliseconds(files)
    options = (
        "longform --word_level --lang en --fix_simuleval_emission_ca "
        "--speech_segmentation ref.yaml --ref_sentences_file ref --hypothesis_file instances.log"
    )
    theirs = omnisteval(files, *options.split())
    assert importlib.metadata.version("omnisteval") == OMNISTEVAL
    ours = run(files, f"segmentation={files}/ref.yaml", "language=en", texts=False)
    expected = {name: float(value) for name, value in theirs.items()}
    assert spelt(ours["longyaal"]) == pytest.approx(expected, abs=PRINTED)


def spelt(figures: dict) -> dict[str, float]:
    """Our figures under OmniSTEval's names."""
    found = {}
    for name, value in values(figures).items():
        plain = name.removesuffix("_ca")
        kind = "" if plain in {"BLEU", "chrF"} else f" ({'CA' if plain != name else 'CU'})"
        found[plain + kind] = value
    return found


@needs_golden
def test_the_published_log_has_omnistevals_twelve_figures(tmp_path):
    pytest.importorskip("mosestokenizer", reason="mosestokenizer is not installed")
    names = {"instances.log": "instances.log", "ref": "references.txt", "seg": "ref_segments.yaml"}
    for name, golden in names.items():
        (tmp_path / name).write_text(golden_text(f"omnisteval/{golden}"), encoding="utf-8")
    found = run(tmp_path, f"segmentation={tmp_path}/seg", "language=de", texts=False)
    rows = [row.split("\t") for row in golden_lines("omnisteval/scores.tsv")[1:]]
    assert len(rows) == 12
    expected = {name: float(value) for name, value in rows}
    assert spelt(found["longyaal"]) == pytest.approx(expected, abs=PRINTED)


def test_delays_that_begin_again_are_told(files, capsys):
    one, two = INSTANCES
    fallen = replace(one, delays=(*one.delays[:-1], 1))
    assert one.delays[-2] > 1
    for first, told in ((one, 0), (fallen, 1)):
        write_streams(files / "instances.log", [first, two])
        run(files)
        assert capsys.readouterr().err.count("the delays of 'ted.1' decrease, but") == told


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["convention=[bleu]"], r"convention is 'bleu'; choose one of streaming"),
        (["convention=null"], "convention has no value"),
        (["s=2"], "s is 2; "),
        (["segmentation=x"], "give source and documents, or only segmentation"),
        (["source=null"], "give source and documents, or only segmentation"),
        (["documents={}/src"], "src, line 1|has unknown documents"),
        (["references={}/empty"], "source=.* has 4 segments but references=.* has 0"),
        (
            ["log={}/twice.log"],
            r"has documents twice, \['ted.2'\]; the references have \['ted.1', 'ted.2'\]",
        ),
        (["log={}/one.log"], r"lacks documents, \['ted.2'\]"),
        (["log={}/ms.log"], "a delay of 'ted.1' is 1000.*give segmentation=FILE"),
        (["log={}/other.log"], "the text of 'ted.1' has 2 words, and its source= 5: give the text"),
        (["log={}/short.log"], "line 1: .*document 'ted.1' has 2 words .*, 1 delays and 0 times"),
        (["log={}/nan.log"], "line 1: delays.0: .*got nan"),
        (["log={}/none.log"], "cannot be read"),
        (["log={}"], "cannot be read"),
    ],
)
def test_mistakes_end_in_one_line(overrides, message, files):
    one, two = INSTANCES
    late = StreamInstance("ted.1", "x", (1000,))
    logs = {"twice": [one, two, two], "one": [one], "ms": [late, two]}
    for name, log in {**logs, "other": [replace(one, text="eins zwei"), two]}.items():
        write_streams(files / f"{name}.log", log)
    for name, delays in {"short": "1", "nan": "NaN, 1"}.items():
        line = f'{{"source": "ted.1", "prediction": "a b", "delays": [{delays}]}}\n'
        (files / f"{name}.log").write_text(line)
    (files / "empty").write_text("")
    with pytest.raises(UserError, match=message) as error:
        run(files, *(each.replace("{}", str(files)) for each in overrides))
    assert "\n" not in str(error.value)
    assert not (files / "instances.scores.json").exists()


@pytest.mark.parametrize(
    "content", ["- {wav: a}", "a: b", "[", "3", "- {wav: a, offset: x, duration: 1}"]
)
def test_a_strange_segmentation_ends_in_one_line(content, files):
    (files / "seg").write_text(content)
    with pytest.raises(UserError, match="not entries of wav, offset, duration") as error:
        run(files, f"segmentation={files}/seg", texts=False)
    assert "\n" not in str(error.value)


def test_an_accent_may_be_a_character_of_its_own(files):
    """As files of macOS have it: the log, the references, or both."""
    accents = str.maketrans({"n": "\u00f1", "e": "\u00e9"})
    references, found = (files / "ref").read_text("utf-8"), []
    lines = (files / "instances.log").read_text("utf-8").splitlines()
    for forms in [("NFC", "NFC"), ("NFC", "NFD"), ("NFD", "NFC"), ("NFD", "NFD")]:
        reference = unicodedata.normalize(forms[0], references.translate(accents))
        (files / "ref").write_text(reference, encoding="utf-8")
        rows = [json.loads(line) for line in lines]
        for row in rows:
            said = row["prediction"].translate(accents)
            row["prediction"] = unicodedata.normalize(forms[1], said)
        log = "".join(json.dumps(row) + "\n" for row in rows)
        (files / "instances.log").write_text(log)
        found.append(run(files))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("name", ["2022.acl-long.110.wav", "2022.acl-long.110"])
def test_a_recording_may_have_dots_in_its_name(name, files):
    (files / "ref").write_text("a b\n")
    place = {"wav": "wavs/2022.acl-long.110.wav", "offset": 0, "duration": 1}
    (files / "seg.json").write_text(json.dumps([place], indent="\t"))
    line = {"source": [name, "16000 Hz"], "prediction": "a b", "delays": [500, 900]}
    (files / "instances.log").write_text(json.dumps(line))
    assert run(files, f"segmentation={files}/seg.json", texts=False)


def test_scores_of_sentences_are_not_replaced(files):
    (files / "scores.json").write_text('{"figures": {}}')
    with pytest.raises(UserError, match="has the scores of sentences"):
        run(files, f"to={files}/scores.json")
    assert "streaming" in run(files), "beside them"
    run_again = files / "new" / "streams.json"
    run(files, f"to={run_again}")
    assert "streaming" in json.loads(run_again.read_text("utf-8"))


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_ids_of_documents_are_lines_beside_the_text(ending, tmp_path):
    path, text = tmp_path / f"x.docid{ending}", b"a\na\nb\nc\n"
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstd.compress}
    path.write_bytes(pack[ending](text))
    assert read_docids(path, 4) == {"a": range(2), "b": range(2, 3), "c": range(3, 4)}
    with pytest.raises(UserError, match="4 ids for 5 lines of text: give one for each"):
        read_docids(path, 5)
    path.write_bytes(pack[ending](b"a\nb\na\n"))
    with pytest.raises(UserError, match="line 3: 'a' was above, before others: keep"):
        read_docids(path, 3)
