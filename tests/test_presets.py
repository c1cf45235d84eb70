"""Prepared experiments: they compose, their sweeps are accepted, the published figures parse."""

from __future__ import annotations

import csv
import itertools
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from simulmt.programs.plain import plain
from simulmt.programs.run_spec import RunSpec
from simulmt.training.run_name import run_name, within

ROOT = Path(__file__).parents[1]
HOME = ROOT / "experiments"
FILES = sorted(
    str(path.relative_to(HOME).with_suffix(""))
    for path in HOME.rglob("*.yaml")
    if path.read_text().startswith("# @package _global_")  # the rest is not Hydra's
)
PRESETS = [name for name in FILES if not Path(name).name.startswith("_")]  # the rest is shared
TABLES = sorted(
    path
    for path in HOME.rglob("*.csv")
    if path.parent.name != "streaming" and path.name != "cost.csv"  # these say nothing of quality
)

# some rows have no quality
OTHER_FIGURES = (
    "oracle.csv",
    "oracle/verbfinal.csv",
    "recorded.csv",
    "bases.csv",
    "lost_mass.csv",
    "span.csv",
    "converged_added.csv",
    "converged_distances.csv",
)

QUALITY = re.compile(r"(stream\w+_|longyaal_)?(BLEU(_one|_other|_dev)?|chrF|absent|present)$")
FIGURE = re.compile(rf"{QUALITY.pattern}|(AP|AL|LAAL|DAL|CW)(_\w+)?$|distance$|layer_\d$")

each_preset = pytest.mark.parametrize("preset", PRESETS)
each_table = pytest.mark.parametrize("path", TABLES, ids=lambda p: str(p.relative_to(HOME)))


@pytest.fixture(autouse=True)
def _anywhere_on_a_machine_with_a_gpu(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def composed(preset: str, *overrides: str) -> DictConfig:
    """The configuration of a preset, with Hydra's own part."""
    OmegaConf.register_new_resolver("run_name", run_name, replace=True)
    OmegaConf.register_new_resolver("within", within, replace=True)
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose("train", [f"experiments={preset}", *overrides], return_hydra_config=True)


def sweep(config: DictConfig) -> dict[str, list[str]]:
    """The keys that a preset sweeps over, with their values as Hydra's sweeper splits them.

    Of a range that Optuna searches, its two ends.
    """
    params = config.hydra.sweeper.get("params") or {}
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):  # where globs look
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        parsed = parser.parse_overrides([f"{k}={v}" for k, v in params.items()])
        assert all(one.is_sweep_override() for one in parsed)
        return {
            one.get_key_element(): (
                [str(one.value().start), str(one.value().end)]
                if one.is_interval_sweep()
                else [*one.sweep_string_iterator()]
            )
            for one in parsed
        }


@cache
def runs(preset: str) -> list[dict[str, Any]]:
    """The plain configuration of each run of a preset."""
    config = composed(preset)
    swept, groups = sweep(config), {*config.hydra.runtime.choices}
    chosen = {key: values for key, values in swept.items() if key in groups}
    set_to = {key: values for key, values in swept.items() if key not in groups}
    found = []
    for choices in itertools.product(*chosen.values()):
        pairs = zip(chosen, choices, strict=True)
        made = composed(preset, *(f"{key}={choice}" for key, choice in pairs))
        for values in itertools.product(*set_to.values()):
            run = OmegaConf.masked_copy(made, [key for key in made if key != "hydra"])
            for key, value in zip(set_to, values, strict=True):
                OmegaConf.update(run, key, OmegaConf.create(f"value: {value}").value)
            found.append(plain(run))
    return found


def published(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file, strict=True)]


def test_the_page_lists_every_preset():
    page = (HOME / "README.md").read_text(encoding="utf-8").partition("## The presets")[2]
    files = re.findall(r"^\| (.*?) \|", page, re.MULTILINE)
    assert sorted(re.findall(r"`(.+?)`", " ".join(files))) == PRESETS


@each_preset
def test_every_run_of_a_preset_is_accepted(preset):
    for config in runs(preset):
        RunSpec.of(config)


@each_table
def test_every_table_of_figures_parses(path):
    rows = published(path)
    assert rows
    for row in rows:
        assert None not in row  # more columns than the heading
        assert None not in row.values()  # fewer
        figures = {key: float(value) for key, value in row.items() if value and FIGURE.match(key)}
        assert any(map(QUALITY.match, figures)) or str(path).endswith(OTHER_FIGURES)
        for name, value in figures.items():
            assert math.isfinite(value), name
            # sacreBLEU rounds a perfect score to either side
            assert 0 < value < 100.001 or not QUALITY.match(name)
