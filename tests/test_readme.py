"""What the documentation tells a reader to type works, and what it points to is there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from simulmt.analysis.studies import STUDIES
from simulmt.options import construct
from simulmt.programs.align import AlignOptions
from simulmt.programs.evaluate_options import EvaluateOptions
from simulmt.programs.oracle import OracleOptions
from simulmt.programs.plain import plain
from simulmt.programs.run_spec import RunSpec
from simulmt.programs.score import read_options
from simulmt.programs.serve import ServeOptions
from simulmt.programs.translate import TranslateOptions
from simulmt.training.run_name import run_name, within
from small_runs import LONGER

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "examples/catch_up/README.md",
    "docs/notebook.ipynb",
    *sorted(
        page.relative_to(ROOT).as_posix()
        for pattern in ("docs/*.md", "experiments/**/README.md")
        for page in ROOT.glob(pattern)
    ),
)


def prose(page: str) -> str:
    """The text of a page; of a notebook, its cells in Markdown."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if not page.endswith(".ipynb"):
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join("".join(cell["source"]) for cell in cells) + "\n"


TEXT = {page: prose(page) for page in PAGES}
SCHEMAS = {
    "align": AlignOptions,
    "evaluate": EvaluateOptions,
    "oracle": OracleOptions,
    "serve": ServeOptions,
    "translate": TranslateOptions,
}
PROGRAMS = {path.stem for path in (ROOT / "conf").glob("[!_]*.yaml")}

each_page = pytest.mark.parametrize("page", PAGES)


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def code(text: str) -> Iterator[str]:
    """What a reader may type: the lines of shell blocks, and code within a line."""
    for block in blocks(text, "bash"):
        yield from block.replace("\\\n", " ").splitlines()
    yield from inline(text)


def inline(text: str) -> list[str]:
    """Code within a line."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", outside)


# A shell that has no programs, but names those that it would have started.
NAMES_ONLY = r"""
PATH=/nowhere
command_not_found_handle() {
    local line
    printf -v line '%s\037' "$@"
    printf '%s\n' "$line" >&3  # at once, as the programs of a pipe run side by side
}
exec 3>&1 1>/dev/null 2>&1
"""


def typed(text: str, folder: Path) -> Iterator[list[str]]:
    """The words of each command of a page, with the values of the shell's variables."""
    for block in blocks(text, "bash"):
        shell = ["bash", "-c", NAMES_ONLY + block]
        done = subprocess.run(shell, cwd=folder, check=False, capture_output=True, text=True)
        yield from (line.split("\037")[:-1] for line in done.stdout.splitlines())
    yield from (shlex.split(line, comments=True) for line in inline(text))


@cache
def commands() -> list[tuple[str, list[str]]]:
    """Each `python train.py ...`, `simulmt train ...` and so on: the program and its arguments."""
    found = []
    with TemporaryDirectory() as folder:
        for page in PAGES:
            for line in typed(TEXT[page], Path(folder)):
                started = line[:1] == ["torchrun"] and "train.py" in line
                words = ["python", *line[line.index("train.py") :]] if started else line
                program = re.sub(r"^(python (-m )?|simulmt )|\.py$", "", " ".join(words[:2]))
                asks = asks_for_a_plugin(words) or "-sc" in words
                if program in PROGRAMS and words[2:] and not asks:
                    found.append((program, words[2:]))
    return found


def asks_for_a_plugin(words: list[str]) -> bool:
    return any("catch_up" in word or word.startswith("plugins=") for word in words)


def runs() -> list[Any]:
    """Each configuration that the commands name, once; a multirun names several.

    Places and seeds make no other configuration.
    """
    found, places = {}, ("name=", "hydra.run.dir=", "checkpoint=", "seed=")
    for program, arguments in commands():
        overrides = [word for word in arguments if not word.startswith("-")]
        multirun = {"-m", "--multirun"} & set(arguments)
        for run in combinations(overrides) if multirun else [overrides]:
            name = " ".join([program, *run])
            key = program, *(word for word in run if not word.startswith(places))
            found.setdefault(key, pytest.param(program, run, id=name))
    return [*found.values()]


def combinations(overrides: list[str]) -> list[list[str]]:
    """The overrides of as few runs as have every value that Hydra's own sweeper finds.

    Of numbers, the least and the greatest speak for those between them.
    """
    found: list[list[str]] = []
    for override in OverridesParser.create().parse_overrides(overrides):
        choices = [override.input_line]
        if override.is_sweep_override():
            key, values = override.get_key_element(), [*override.sweep_string_iterator()]
            if all(value.replace(".", "", 1).isdigit() for value in values):
                values = [*dict.fromkeys([min(values, key=float), max(values, key=float)])]
            choices = [f"{key}={value}" for value in values]
        found.append(choices)
    longest = max(map(len, found), default=1)
    return [[choices[n % len(choices)] for choices in found] for n in range(longest)]


def composed(program: str, overrides: list[str]) -> DictConfig:
    """The configuration of a command: composed once for its groups, with its values set in a copy.

    Composing takes most of the time of these tests.
    """
    parsed = OverridesParser.create().parse_overrides(overrides)
    values = [one for one in parsed if is_value(one)]
    groups = [one.input_line for one in parsed if one not in values]
    config = deepcopy(of_groups(program, *groups))
    for one in values:
        OmegaConf.update(config, one.key_or_group, one.value(), force_add=one.is_add())
    return config


def is_value(override: Override) -> bool:
    """True for a value of an option, False for a group's choice and for Hydra's own options."""
    key = override.key_or_group
    own = key.startswith("hydra") or override.is_delete() or override.is_sweep_override()
    return not (own or (ROOT / "conf" / key).is_dir())


@cache
def of_groups(program: str, *overrides: str) -> DictConfig:
    OmegaConf.register_new_resolver("run_name", run_name, replace=True)
    OmegaConf.register_new_resolver("within", within, replace=True)
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose(program, [*overrides])


@pytest.mark.parametrize(("program", "overrides"), runs())
def test_every_command_composes(program, overrides, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    config = plain(composed(program, overrides))
    if program == "analyse":
        assert config["study"] in STUDIES
    if program == "train" and config["teacher"]["kind"] in ("none", "joint"):  # others need a file
        fresh = {"init_from": None, "init_freeze": 0, "init_partial": False}
        RunSpec.of(config | fresh)  # what is rejected at once
    if program == "score":
        read_options(config)
    if program in SCHEMAS:
        construct(SCHEMAS[program], config, f"{program}.py")


@each_page
def test_every_link_leads_somewhere(page):
    folder = (ROOT / page).parent
    for link in re.findall(r"\]\(([^)\s]+)\)", TEXT[page]):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = folder / path if path else ROOT / page
        assert target.is_file() or (target / "README.md").is_file(), f"{link}, also in the site"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
            assert anchor in slugs, link


def test_the_page_on_plugins_shows_the_example():
    example, page = ROOT / "examples" / "catch_up", TEXT["docs/plugins.md"]
    part, _, _, laws = blocks(page, "python")
    (options, _), (entry,) = blocks(page, "yaml"), blocks(page, "toml")
    assert (example / "catch_up" / "__init__.py").read_text("utf-8").endswith(part)
    assert (example / "test_catch_up.py").read_text("utf-8").endswith(laws)
    assert (example / "catch_up" / "conf/mechanism/catch_up.yaml").read_text("utf-8") == options
    assert entry in (example / "pyproject.toml").read_text("utf-8")


@each_page
def test_every_named_file_of_the_repository_exists(page):
    for name in code(TEXT[page]):
        if re.fullmatch(r"(src|conf|tests|experiments)/[\w/.]*", name):
            assert (ROOT / name).exists(), name


def test_the_page_for_python_runs_from_top_to_bottom(trained_once, tmp_path, monkeypatch):
    trained = {
        "RUN": [*LONGER, "mechanism=wait_k"],
        "OFFLINE": [*LONGER, "mechanism=soft", "model.encoder=bidirectional"],
        "DOCUMENTS": ["mechanism=wait_k", "data.documents=true", "model.boundaries=true"],
    }
    for name, options in trained.items():
        (tmp_path / name).symlink_to(trained_once(*options))
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(TEXT["docs/python.md"], "python"):
        exec(block, names)
    assert len(names["resampled"]) == 1000
