"""The commands of the README, typed one after the other in a new clone.

The clone has smaller defaults (SMALLER), so that each training run takes seconds. Everything else
that differs from what a reader types is in REPLACED, SKIPPED and PROGRAMS.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("transformers", reason="transformers, which writes the model, is absent")

from commands import type_in
from marian_models import write_folder
from simulmt.data.verbfinal import verbfinal
from test_readme import ROOT, TEXT, blocks
from test_sacrebleu_sets import lay

SMALLER = {
    "data/verbfinal.yaml": {"train": 300, "valid": 9, "test": 11, "size": 400},
    "data/huggingface.yaml": {"size": 400},
    "data/text.yaml": {"size": 400},
    "model/transformer.yaml": {"dim": 16, "ffn": 16, "heads": 2},
    "model/rnmt_plus.yaml": {"dim": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1},
    "objective/latency_augmented.yaml": {"hold": 1, "warmup": 2},
    "optim/adam.yaml": {"warmup": 4},
    "trainer/cpu.yaml": {"max_updates": 6, "validate_every": 3, "log_every": 1},
}
"""The defaults of the clone, in files of `conf`."""
REPLACED = {
    "data.subwords.size=32000 model=transformer_base trainer=gpu trainer.max_updates=100000":
        "data.subwords.size=400",  # neither that much text nor a GPU
    "simulmt serve checkpoint=RUN": "simulmt serve checkpoint=RUN port=0",  # 8350 may be in use
}  # fmt: skip
"""Words that a reader types, and what the test types instead."""
SKIPPED = ("make test",)
"""This test is part of it."""
COMET = """
import json, sys

scores = [{"COMET": 0.5} for _ in open(sys.argv[2], encoding="utf-8")]
json.dump({"output": scores}, open(sys.argv[-1], "w", encoding="utf-8"))
"""
"""In place of comet-score, which has an environment of its own."""
PROGRAMS = {
    "comet-score": f'exec {shlex.quote(sys.executable)} -c {shlex.quote(COMET)} "$@"',
    "pip": "exit",  # everything is installed
    "hf": 'cp -r "$MARIAN" "$4"',  # hf download NAME --local-dir FOLDER
    "python": f'exec {shlex.quote(sys.executable)} "$@"',
    "simulmt": f'exec {shlex.quote(sys.executable)} -m simulmt "$@"',
}
"""Programs of the clone's virtual environment, as the lines of a shell script."""
RUNS = {
    "RUN is the multi_path run": "runs/verbfinal/mechanism-multi_path",
    "RUN is the soft run": "runs/verbfinal/mechanism-soft",
    "an offline model translates": "runs/verbfinal/mechanism-soft",
}
"""What RUN stands for below such a comment; without one it is the README's own example."""
PAIRS = verbfinal(1, 300, 9, 11)


class Typed(NamedTuple):
    line: str
    status: int
    out: str
    err: str


def clone(folder: Path) -> Path:
    """A clone with smaller defaults, and with an environment."""
    shutil.copytree(ROOT / "src", folder / "src")
    shutil.copytree(ROOT / "conf", folder / "conf", symlinks=True)
    (folder / "experiments").symlink_to(ROOT / "experiments")
    for name in ("Makefile", "pyproject.toml", "constraints.txt", *ROOT.glob("*.py")):
        shutil.copy2(ROOT / name, folder)
    for name, values in SMALLER.items():
        file = folder / "conf" / name
        text = file.read_text(encoding="utf-8")
        for key, value in values.items():
            text, found = re.subn(rf"(?m)^( *{key}:) *\S+", rf"\1 {value}", text)
            assert found == 1, (name, key)
        file.write_text(text, encoding="utf-8")
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (folder / ".venv" / ".ready").touch()  # for make
    return folder


def lay_texts(folder: Path, sacrebleu: Path) -> None:
    """The text that a reader has, or that would be downloaded."""
    import pyarrow as pa
    from pyarrow import parquet

    data = folder / "wmt" / "wmt14"
    (folder / "DIR").mkdir()
    (data / "de-en").mkdir(parents=True)
    card = ["configs:", "- config_name: de-en", "  data_files:"]
    for name, other in (("train", "train"), ("valid", "validation"), ("test", "test")):
        split = PAIRS.splits[name]
        for language, lines in (("de", split.sources), ("en", split.targets)):
            text = "".join(f"{line}\n" for line in lines)
            (folder / "DIR" / f"{name}.{language}").write_text(text, encoding="utf-8")
        ids = (f"{place // 10}\n" for place in range(len(split)))
        (folder / "DIR" / f"{name}.docid").write_text("".join(ids))
        pairs = [{"de": a, "en": b} for a, b in zip(split.sources, split.targets, strict=True)]
        parquet.write_table(
            pa.table({"translation": pairs}), data / "de-en" / f"{other}-00000.parquet"
        )
        card += [f"  - split: {other}", f"    path: de-en/{other}-*"]
    (data / "README.md").write_text("\n".join(["---", *card, "---", ""]))
    lay(sacrebleu, "wmt15", "de-en", ["the man", "the woman", "a hat"])


def pretrained() -> Iterator[list[str]]:
    """The commands of the page on pretrained models, without the import, the server and pipes."""
    small = ["trainer.max_updates=6", "trainer.validate_every=3", "objective.warmup=2"]
    more = {"train": small, "report": ["test=newstest", "to=theirs"]}  # the README's is beside it
    for block in blocks(TEXT["docs/pretrained.md"], "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["simulmt"] and words[1] not in ("import", "serve"):
                yield words + more.get(words[1], [])


def lines() -> Iterator[str]:
    """The commands of the README from top to bottom, without comments."""
    example = re.search(r"`RUN` is a run directory such as `([^`]+)`", TEXT["README.md"])
    assert example
    for block in blocks(TEXT["README.md"], "bash"):
        for paragraph in block.replace("\\\n", " ").split("\n\n"):
            run = next((r for said, r in RUNS.items() if said in paragraph), example[1])
            for line in filter(None, paragraph.splitlines()):
                words = " ".join(shlex.split(line, comments=True))
                for theirs, ours in REPLACED.items():
                    words = words.replace(theirs, ours)
                if words and not words.startswith(SKIPPED):
                    yield re.sub(r"\bRUN\b", run, words)


def typed(line: str, folder: Path, environment: dict[str, str]) -> Typed:
    """Type a command; a server is ended by Ctrl-C once it listens."""
    line = f"exec {line}" if " serve " in line else line
    with subprocess.Popen(
        ["bash", "-c", line], cwd=folder, env=environment, text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        said = ""
        try:
            if " serve " in line:
                said = process.stdout.readline()
                time.sleep(1)
                process.send_signal(signal.SIGINT)
            out, err = process.communicate("der Mann schläft .\n", timeout=400)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Typed(line, process.returncode, said + out, err)


@pytest.mark.slow
def test_every_command_of_the_readme_works_in_its_place(tmp_path):
    folder, sacrebleu = clone(tmp_path / "clone"), tmp_path / "sacrebleu"
    lay_texts(folder, sacrebleu)
    environment = os.environ | {
        "PATH": os.pathsep.join([str(folder / ".venv" / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(folder / "src"),
        "MARIAN": str(write_folder(tmp_path / "marian")),
        "SACREBLEU": str(sacrebleu),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = []
    for line in lines():
        done.append(answer := typed(line, folder, environment))
        ended = (0, 130) if " serve " in line else (0,)
        failed = answer.status not in ended or "Traceback" in answer.err + answer.out
        assert not failed, f"{answer.line}: exit status {answer.status}\n{answer.err[-3000:]}"
    assert len(done) > 25
    made = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("report.html")}
    assert made >= {"runs/verbfinal", "de-en", *RUNS.values()}
    (resumed,) = (answer for answer in done if "ckpt_path=last" in answer.line)
    assert "already finished" in resumed.out


def test_an_imported_model_is_evaluated_and_reported(tmp_path, monkeypatch):
    """The README's three commands in sequence, in a folder that has nothing else."""
    lay(tmp_path / "sacrebleu", "wmt15", "de-en", ["the man", "the woman", "a hat"])
    monkeypatch.setenv("SACREBLEU", str(tmp_path / "sacrebleu"))
    write_folder(tmp_path / "opus-mt-de-en")
    wanted = ("simulmt import", "simulmt evaluate", "simulmt report")
    commands = [shlex.split(line) for line in lines() if line.startswith(wanted)]
    assert [words[1] for words in commands] == ["import", "evaluate", "report"]
    for side, word in (("de", "der Mann sieht"), ("en", "the man sees")):
        for name in ("newstest", "train", "valid", "test"):
            (tmp_path / f"{name}.{side}").write_text(f"{word}\n{word} {name}\n{name}\n")
    theirs = [*pretrained()]
    assert [words[1] for words in theirs] == ["evaluate", "evaluate", "report", "train", "export"]
    for answer in type_in(*commands, *theirs, cwd=tmp_path):
        assert answer.status == 0, answer
    assert (tmp_path / "theirs/curves.csv").is_file()
    assert (tmp_path / "for-transformers/model.safetensors").is_file()
    rows = (tmp_path / "de-en" / "curves.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 3, "a line of heads and two policies"
