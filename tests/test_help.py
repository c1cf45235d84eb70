"""The help says what the files say: every key that a user may set, its value and its comment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from simulmt.errors import UserError
from simulmt.options import flat_options
from simulmt.programs.help import explain, usage
from simulmt.programs.keys import Group, choices, chosen, find, keys_of, keys_of_choice, read

CONF = Path(__file__).parents[1] / "conf"
VERBS = sorted(path.stem for path in CONF.glob("*.yaml"))
GROUPS = {group.name: group for group in read(CONF / "train.yaml").groups}
CHOICES = [(group, choice) for group in GROUPS for choice in choices([CONF], group)]


def typed(keys):
    """The values of keys by name, as Hydra reads them."""
    written = {key.name: key.value for key in keys if key.value is not None}
    return {name: plain(f"x: {value}")["x"] for name, value in written.items()}


def plain(config):
    return OmegaConf.to_container(OmegaConf.create(config), resolve=False)


@pytest.mark.parametrize("verb", VERBS)
def test_every_key_of_a_verb_is_explained(verb):
    keys = keys_of([CONF], verb).values()
    assert typed(keys)
    assert [key.name for key in keys if key.value is not None and not key.why] == []


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_every_choice_and_every_key_of_it_is_explained(group, choice):
    keys = keys_of_choice([CONF], GROUPS[group], choice)
    assert [key.name for key in keys if key.value is not None and not key.why] == []
    assert read(find([CONF], f"{group}/{choice}")).summary


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_how_it_is_used_and_what_it_does(verb):
    header = read(CONF / f"{verb}.yaml").header
    assert f"{verb} " in header[0].replace(".py", "")
    assert len(header) > 1


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["data=iwslt15_envi", "mechanism=milk", "model=rnmt_plus_milk", "optim=rnmt_plus"],
        ["data=multi30k_ende", "mechanism=luong_local_m", "model=incremental_transformer"],
        ["teacher=pretrained", "trainer=ddp", "logger=wandb", "model=luong_iwslt15"],
    ],
)
def test_the_keys_and_values_are_those_that_hydra_composes(words):
    found = typed(keys_of([CONF], "train").values())
    for group, choice in chosen(tuple(GROUPS.values()), words):
        found |= typed(keys_of_choice([CONF], group, choice))
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = flat_options(plain(compose("train", words)))
    assert {k: str(v) for k, v in found.items()} == {k: str(v) for k, v in composed.items()}


def test_the_help_of_a_choice_explains_its_keys():
    text = explain("train", ["mechanism=milk", "lambda=0.2"], [CONF])
    assert "mechanism.noise=3.0" in text
    assert "on the energies; the paper has 4 mechanism.energy_bias" in " ".join(text.split())
    assert "mechanism.schedule=monotonic" in text  # explained by the default choice
    assert "* mma_il" in text
    assert "hydra" not in text
    assert "_self_" not in text


def test_a_sweep_explains_each_of_its_choices_and_a_search_the_default():
    groups = (GROUPS["mechanism"], Group("data", "null", ""))
    assert [c for _, c in chosen(groups, ["mechanism=milk,wait_k"])] == ["milk", "wait_k"]
    assert [c for _, c in chosen(groups, ["mechanism=glob(*)"])] == ["mma_il"]
    assert chosen(groups, ["mechanism=null"]) == []


def test_presets_are_listed_without_the_parts_that_they_share():
    presets = choices([CONF], "experiments")
    assert "milk/table3" in presets
    assert "multi30k_cpu" in presets
    assert "milk/_common" not in presets
    assert "wandb/sweep" not in presets  # W&B's own file
    assert "MILk Table 3" in explain("train", ["experiments=milk/table3"], [CONF])


def test_a_required_key_is_said_to_be_required():
    assert "checkpoint=  " in explain("evaluate", [], [CONF])
    assert "required: a run directory" in explain("evaluate", [], [CONF])


def test_the_usage_names_every_verb_and_how_to_get_more():
    text = usage(VERBS, [CONF])
    for verb in VERBS:
        assert f"  simulmt {verb} " in text
    for flag in ("--help", "--version", "--completion"):
        assert flag in text


@pytest.mark.parametrize(("columns", "width"), [("20", 80), ("90", 90), ("300", 120)])
def test_no_line_is_wider_than_the_terminal(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    texts = [usage(VERBS, [CONF]), *(explain(verb, [], [CONF]) for verb in VERBS)]
    lines = "\n".join(texts).splitlines()
    assert max(map(len, lines)) <= width
    assert not any(line != line.rstrip() for line in lines)


def test_an_unknown_choice_is_refused_with_those_that_exist():
    with pytest.raises(UserError, match=r"mechanism has no choice 'milkk'.*mma_il"):
        explain("train", ["mechanism=milkk"], [CONF])


OWN = """\
# A mechanism of another package.
# @package is no part of this.

name: "a # b"          # what "#" may be
'quoted': 'it''s: #1'
list: [a, "b, c", {d: 1}]  # in a row
rows:                  # one below
                       # the other
  - ä
  - 2
# above the key
# in two lines
above: 1e-3

# about nothing

bare:
empty: {}\t# nothing yet
url: http://x#y
folded: >
  # no comment
nested:
  # of the inner one
  deeper: {x: 1, y: "}"}  # of all
computed: ${name}
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_any_yaml_of_a_user_is_read(newline, start, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(start + OWN, encoding="utf-8", newline=newline)
    page = read(path)
    assert page.summary == "A mechanism of another package."
    assert [tuple(key) for key in page.keys] == [
        ("name", '"a # b"', 'what "#" may be'),
        ("quoted", "'it''s: #1'", ""),
        ("list", '[a,"b, c",{d: 1}]', "in a row"),
        ("rows", "[ä,2]", "one below the other"),
        ("above", "1e-3", "above the key in two lines"),
        ("bare", "null", ""),
        ("empty", None, "nothing yet"),
        ("url", "http://x#y", ""),
        ("folded", "> # no comment", ""),
        ("nested", None, ""),
        ("nested.deeper", None, "of all"),
        ("nested.deeper.x", "1", ""),
        ("nested.deeper.y", '"}"', ""),
    ]


@pytest.mark.parametrize("text", ["", "# only this\n", "- a\n- b\n", "word\n", "? [a]\n: b\n"])
def test_a_file_without_keys_has_none(text, tmp_path):
    (tmp_path / "own.yaml").write_text(text)
    assert read(tmp_path / "own.yaml").keys == ()


@pytest.mark.parametrize("text", [b"a: [1", b"a: b: c", b"\ta: 1", b"a: \xff"])
def test_a_file_that_is_no_yaml_is_named(text, tmp_path):
    (tmp_path / "own.yaml").write_bytes(text)
    with pytest.raises(UserError, match=r"own\.yaml cannot be read"):
        read(tmp_path / "own.yaml")


def test_choices_of_another_package_stand_beside_the_others(tmp_path):
    (tmp_path / "mechanism").mkdir()
    (tmp_path / "mechanism" / "mine.yaml").write_text(
        "# My own.\ndefaults: [milk, _self_]\nname: mine\nnoise: 9.0\nmore: 1\n"
    )
    text = " ".join(explain("train", ["mechanism=mine"], [CONF, tmp_path]).split())
    assert "My own." in text
    assert " milk " in text
    assert "mechanism.noise=9.0" in text  # its own value, explained by its parent
    assert "the paper has 4" in text
    assert "mechanism.more=1 " in text


def test_the_example_of_a_package_is_explained():
    folders = [CONF, CONF.parent / "examples/catch_up/catch_up/conf"]
    keys = keys_of_choice(folders, GROUPS["mechanism"], "catch_up")
    assert "mechanism.steady" in [key.name for key in keys]
    assert [key.name for key in keys if not key.why] == []


def test_neither_help_nor_completion_waits_for_a_framework():
    code = """
import sys, simulmt.programs.completion, simulmt.programs.help
print([name for name in ("torch", "hydra", "omegaconf", "numpy", "rich") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_reader_that_leaves_early_sees_no_traceback():
    command = f"set -o pipefail; {sys.executable} -m simulmt train --help | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "  simulmt train [GROUP=CHOICE] [KEY=VALUE] ...\n"
