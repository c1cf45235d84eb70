"""Completion, by its rules and in the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from simulmt.errors import UserError
from simulmt.programs.completion import SCRIPTS, complete, script
from simulmt.programs.keys import choices, keys_of, keys_of_choice, read

CONF = Path(__file__).parents[1] / "conf"
VERBS = sorted(path.stem for path in CONF.glob("*.yaml"))
GROUPS = read(CONF / "train.yaml").groups


def ends(words: str) -> list[str]:
    """What may follow `simulmt `, without what all candidates share."""
    shared = words.rpartition(" ")[2]
    found = complete(f"simulmt {words}", VERBS, [CONF])
    assert all(word.startswith(shared) for word in found)
    return [word.removeprefix(shared) for word in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", VERBS),
        ("tra", ["in", "nslate"]),
        ("--v", ["ersion"]),
        ("--completion ", sorted(SCRIPTS)),
        ("train mech", ["anism.", "anism="]),
        ("train lambda", ["=", "_var="]),
        ("train mechanism=mma_", ["c", "h", "il"]),
        ("train mechanism=milk,mma_", ["c", "h", "il"]),
        ("train +mechanism=mi", ["lk"]),
        ("train mechanism=wait_k mechanism.k", ["="]),
        ("train mechanism=milk mechanism.k", []),
        ("train data.sub", ["words."]),
        ("train data.subwords.", ["kind=", "model=", "size="]),
        ("train data.subwords.kind=", ["bpe", "unigram"]),
        ("train experiments=m", ["ilk/", "ma/", "ulti30k_cpu"]),
        ("train experiments=milk/table3", [""]),
        ("train trainer.progress=", ["false", "true"]),
        ("train model.norm=p", ["ost", "re"]),
        ("train seed=", []),
        ("train --", ["cfg", "help", "multirun", "resolve"]),
        ("train --cfg ", ["all", "hydra", "job"]),
        ("evaluate device=", ["auto", "cpu", "cuda"]),
        ("evaluate spl", ["it="]),
        ("align symmetrise=", ["grow-diag-final-and", "intersection"]),
        ("align data=verb", ["final"]),
        ("nothing mech", []),
        ("train nothing=", []),
        ("train mechanism=nothing mech", []),
    ],
)
def test_what_may_follow(words, expected):
    assert ends(words) == expected


def test_paths_end_in_files_and_folders_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "two words").mkdir()
    (tmp_path / "read.txt").touch()
    (tmp_path / ".cache").mkdir()
    assert ends("evaluate checkpoint=") == ["read.txt", "runs/"]
    assert ends("evaluate checkpoint=runs/") == ["one/"]
    assert ends("evaluate checkpoint=~/ru") == ["ns/"]
    assert ends(f"evaluate checkpoint={tmp_path}/r") == ["ead.txt", "uns/"]
    assert ends("train cache=.c") == ["ache/"]
    assert ends("evaluate checkpoint=nowhere/") == []


def test_every_key_with_a_path_and_no_other_ends_in_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    keys = {(verb, key) for verb in VERBS for key in keys_of([CONF], verb)}
    keys |= {
        (f"train {group.name}={choice}", key.name)
        for group in GROUPS
        for choice in choices([CONF], group.name)
        for key in keys_of_choice([CONF], group, choice)
    }
    found = {(words.split()[0], key) for words, key in keys if "here" in ends(f"{words} {key}=")}
    names = {"align": "source target to", "analyse": "runs to links data_root"}
    names |= {"evaluate": "checkpoint source target data_root", "export": "checkpoint to"}
    names |= {"report": "runs to published labels", "translate": "checkpoint input output picture"}
    names["train"] = (
        "ckpt_path init_from cache data.path data.root data.subwords.model teacher.checkpoint"
    )
    names["serve"] = "checkpoint checkpoint2"
    names |= {"distil": "checkpoint to source target data_root cache", "import": "from to"}
    wanted = {(verb, key) for verb, keys in names.items() for key in keys.split()}
    assert found == wanted


def test_the_values_that_comments_name_are_those_that_the_code_takes():
    from simulmt.attention.mechanism import Heads
    from simulmt.attention.schedules import SCHEDULES
    from simulmt.attention.scores import SCORES
    from simulmt.attention.spans import SPANS
    from simulmt.builders import CORPORA, MODELS, USUAL
    from simulmt.objective.latency_augmented import LATENCIES, LOST_MASS
    from simulmt.programs.teacher import KINDS
    from simulmt.scoring.conventions import CONVENTIONS
    from simulmt.training.loggers import LOGGERS
    from simulmt.training.optimiser import LEARNING_RATES
    from simulmt.training.run import Plan

    plan = get_type_hints(Plan)
    tables = {
        "data.corpus": CORPORA,
        "mechanism.heads": get_args(Heads),
        "mechanism.schedule": SCHEDULES,
        "mechanism.score": {USUAL, *SCORES},
        "mechanism.span": SPANS,
        "model.name": MODELS,
        "objective.latency": LATENCIES,
        "objective.lost_mass": LOST_MASS,
        "optim.schedule": LEARNING_RATES,
        "teacher.kind": KINDS,
        "logger.kind": LOGGERS,
        **{f"trainer.{k}": get_args(plan[k]) for k in ("accelerator", "strategy", "precision")},
    }
    for key, table in tables.items():
        assert ends(f"train {key}=") == sorted(table), key
    assert ends("report convention=") == sorted(CONVENTIONS)


def test_a_broken_file_of_a_user_ends_in_nothing(tmp_path):
    (tmp_path / "train.yaml").write_text("a: [")
    assert complete("simulmt train a", ["train"], [tmp_path]) == []


def test_another_shell_is_refused():
    with pytest.raises(UserError, match="bash, zsh, fish"):
        script("tcsh")


@pytest.fixture
def command(tmp_path) -> dict[str, str]:
    """The environment of a shell that finds a command `simulmt` which only completes."""
    path = tmp_path / "bin" / "simulmt"
    path.parent.mkdir()
    path.write_text(
        f"""#!{sys.executable}
import sys
from pathlib import Path
from simulmt.programs.completion import complete, script
flag, word = sys.argv[1:]
if flag == "--completion":
    print(script(word))
else:
    print("\\n".join(complete(word, {VERBS}, [Path({str(CONF)!r})])))
""",
        encoding="utf-8",
    )
    path.chmod(0o755)
    search = f"{path.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": search, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(shell: str, code: str, environment: dict[str, str], *arguments: str) -> str:
    """The output of a shell that runs a script."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"no {shell} here")
    done = subprocess.run(
        [found, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


IN_BASH = """
eval "$(simulmt --completion bash)"
COMP_LINE=$1 COMP_POINT=${#1}
_simulmt simulmt "$2" ""
printf '%s|' "${COMPREPLY[@]}"
complete -p simulmt
"""


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("simulmt trai", "trai", "train |"),
        ("simulmt train mechanism=mma_", "mma_", "mma_c |mma_h |mma_il |"),
        ("simulmt train mechanism=", "", None),
        ("simulmt train mechanism=mma_", "mechanism=mma_", "mechanism=mma_c |mechanism=mma_h |"),
        ("simulmt train data.subwords.k", "data.subwords.k", "data.subwords.kind=|"),
        ("simulmt train trainer.prog", "trainer.prog", "trainer.progress=|"),
        ("simulmt nothing ", "", "|"),
    ],
)
def test_bash_replaces_what_is_behind_its_word_breaks(line, word, expected, command):
    """The word that bash replaces begins behind `=`, unless COMP_WORDBREAKS has no `=`."""
    out = run("bash", IN_BASH, command, "bash", line, word)
    if expected is None:
        expected = "".join(f"{name} |" for name in choices([CONF], "mechanism"))
    assert out.startswith(expected)
    assert out.endswith("complete -o nospace -F _simulmt simulmt\n")


def test_fish_offers_the_same(command):
    code = "simulmt --completion fish | source; complete -C 'simulmt train mechanism=milk,mma_'"
    milk = "mechanism=milk,mma_"
    assert run("fish", code, command).split() == [f"{milk}{end}" for end in ("c", "h", "il")]


def test_zsh_hands_over_words_that_end_and_words_that_go_on(command):
    code = """
compdef() { print compdef $@ }
compadd() { print compadd "$@" }
eval "$(simulmt --completion zsh)"
words=(simulmt train exp) CURRENT=3 PREFIX=experiments=m
_simulmt
"""
    assert run("zsh", code, command).splitlines() == [
        "compdef _simulmt simulmt",
        "compadd -S  -- experiments=milk/ experiments=mma/",
        "compadd -- experiments=multi30k_cpu",
    ]
