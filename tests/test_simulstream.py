"""The log of simulstream: its own reader, and OmniSTEval's figures from it, beside ours."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import pytest

from commands import omnisteval
from simulmt.errors import UserError
from simulmt.files.simulstream import read_simulstream
from simulmt.programs.score import score
from small_runs import configuration

PIECES = {"word": ["one", "two,", "Three."], "spm": ["▁one", "▁t", "wo", ",", "▁Three", "."]}
PRINTED = 5e-5 * 1.01  # OmniSTEval prints four digits


def made_up(seed: int, unit: str, recordings: int = 3, steps: int = 25) -> list[dict]:
    """Lines of a log in which recordings take turns, and a third of the steps take tokens back."""
    draw = random.Random(seed)
    lines: list[dict] = [{"model_loading_time": 1.5}]
    written: dict[int, list[str]] = {}
    for number in range(recordings):
        lines.append({"id": number, "metadata": {"wav_name": f"wavs/rec{number}.wav"}})
        written[number] = []
    for step in range(1, steps + 1):
        for number, tokens in written.items():
            back = draw.randint(0, len(tokens)) if draw.random() < 1 / 3 else 0
            deleted = tokens[len(tokens) - back :]
            new = draw.choices(PIECES[unit], k=draw.randint(0, 3))
            if unit == "spm" and back == len(tokens):
                new = ["▁one", *new]
            written[number] = tokens[: len(tokens) - back] + new
            times = {"total_audio_processed": step / 2, "computation_time": draw.random()}
            tokens_of = {"generated_tokens": new, "deleted_tokens": deleted}
            lines.append({"id": number, **times, **tokens_of})
    return lines


def write(path, lines) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("unit", [*PIECES])
def test_its_own_reader_finds_the_same(unit, seed, tmp_path):
    readers = pytest.importorskip(
        "simulstream.metrics.readers", reason="simulstream is not installed"
    )
    write(tmp_path / "log", made_up(seed, unit))
    how = SimpleNamespace(detokenizer_type="simuleval", latency_unit=unit)
    theirs = readers.LogReader(how, str(tmp_path / "log")).final_outputs_and_latencies()
    ours = read_simulstream(tmp_path / "log")
    assert [each.source for each in ours] == [*theirs]
    for each in ours:
        found = theirs[each.source]
        assert each.prediction == found.final_text
        assert each.delays == tuple(1000 * time for time in found.ideal_delays)
        times = tuple(1000 * time for time in found.computational_aware_delays)
        assert each.elapsed == pytest.approx(times, rel=1e-12)


def test_omnisteval_finds_the_same_figures(tmp_path):
    pytest.importorskip("simulstream.metrics.readers", reason="simulstream is not installed")
    write(tmp_path / "log", made_up(1, "word"))
    entries = [
        {"wav": f"rec{n}.wav", "offset": 4 * k, "duration": 4, "speaker_id": "x"}
        for n in range(3)
        for k in range(3)
    ]
    (tmp_path / "seg.yaml").write_text(json.dumps(entries))
    (tmp_path / "ref").write_text("one two, three.\ntwo, two, one.\nthree. one\n" * 3)
    (tmp_path / "config").write_text("detokenizer_type: simuleval\nlatency_unit: word\n")
    options = (
        "longform --word_level --lang en --speech_segmentation seg.yaml --ref_sentences_file ref "
        "--hypothesis_file log --hypothesis_format simulstream --simulstream_config_file config"
    )
    theirs = omnisteval(tmp_path, *options.split())
    files = [f"{key}={tmp_path}/{name}" for key, name in FILES.items()]
    score(configuration("score", *files, "form=simulstream", "language=en"))
    ours = json.loads((tmp_path / "log.scores.json").read_text("utf-8"))["longyaal"]
    assert len(ours) == len(theirs)
    for name, figure in ours.items():
        plain = name.removesuffix("_ca")
        kind = "" if plain in {"BLEU", "chrF"} else f" ({'CA' if plain != name else 'CU'})"
        assert figure["value"] == pytest.approx(float(theirs[plain + kind]), abs=PRINTED)
    assert "fix:no" in ours["LongYAAL_ca"]["signature"]


FILES = {"log": "log", "references": "ref", "segmentation": "seg.yaml"}


STEP = {
    "id": 1,
    "total_audio_processed": 1,
    "computation_time": 0,
    "generated_tokens": [],
    "deleted_tokens": [],
}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": 7, "generated_tokens": ["a"]}, "line 2: id 7 has no recording"),
        ({**STEP, "deleted_tokens": ["b"]}, "line 2: deleted_tokens are not the last tokens"),
        ({**STEP, "computation_time": "x"}, "line 2: computation_time: .*'x'"),
        ({**STEP, "total_audio_processed": -1}, "line 2: .* has this recording twice"),
        (
            {k: v for k, v in STEP.items() if k[0] != "t"},
            "line 2: total_audio_processed: Field required",
        ),
        ({k: v for k, v in STEP.items() if k[0] != "g"}, "line 2: generated_tokens: Field req"),
        ([1], "line 2: Input"),
        (
            {"id": 2, "metadata": {"wav_name": "b/a.wav"}},
            "a.wav and b/a.wav have the same name 'a'",
        ),
    ],
)
def test_a_corrupt_line_is_named(line, message, tmp_path):
    write(tmp_path / "log", [{"id": 1, "metadata": {"wav_name": "a.wav"}}, line])
    with pytest.raises(UserError, match=message) as error:
        read_simulstream(tmp_path / "log")
    assert "\n" not in str(error.value)


def test_characters_have_the_times_of_their_steps(tmp_path):
    steps = [(1, ["▁我 用"], []), (3, ["手", "机"], []), (4, ["表"], ["机"])]
    lines = [
        {**STEP, "total_audio_processed": s, "generated_tokens": new, "deleted_tokens": old}
        for s, new, old in steps
    ]
    write(tmp_path / "log", [{"id": 1, "metadata": {"wav_name": "a.wav"}}, *lines])
    (found,) = read_simulstream(tmp_path / "log", characters=True)
    assert found.words == ["我", "用", "手", "表"]
    assert found.delays == (1000, 1000, 3000, 4000)


def test_words_need_a_segmentation(tmp_path):
    files = [f"{key}={tmp_path}/{key}" for key in ("log", "references", "source", "documents")]
    with pytest.raises(UserError, match="form=simulstream has times in seconds"):
        score(configuration("score", *files, "form=simulstream"))
