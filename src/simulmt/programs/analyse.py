"""`analyse.py`: a study of finished runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from simulmt.analysis.page import REMEDY
from simulmt.analysis.runs.found import comparable, find_runs
from simulmt.analysis.studies import STUDIES
from simulmt.analysis.studies.run_set import RunSet, write_result
from simulmt.options import construct, pick
from simulmt.parts.builders import pick_device
from simulmt.programs.plain import plain
from simulmt.system.disk import check_writable

_OF_STUDIES = ("unit", "bins", "links", "aligner", "strength", "several")


@dataclass(frozen=True)
class AnalyseOptions:
    """The options of `conf/analyse.yaml`, which explains each of them."""

    study: Any
    runs: Path
    to: Path | None
    unit: Any
    bins: Any
    links: Any
    aligner: Any
    strength: Any
    several: Any
    decodings: bool
    device: str
    data_root: Path | None
    plugins: list[str]


def analyse(cfg: DictConfig) -> None:
    """Make a study, and print the places of its figure and its table.

    Raises:
        UserError: a mistake that a user can correct.
    """
    options = construct(AnalyseOptions, plain(cfg), "")
    study, folder = pick(STUDIES, options.study, "study"), options.runs
    found, target = find_runs(folder, options.decodings), options.to or folder / "analysis"
    check_writable(target, REMEDY)
    for note in found.left_out:
        print(f"left out: {note}")
    runs = comparable(found, folder)
    run_set = RunSet(folder, runs, options.data_root, pick_device(options.device))
    given = {k: x for k in _OF_STUDIES if (x := getattr(options, k)) is not None}
    result = construct(study, given, f"study={options.study}", {"run_set": run_set})
    print(f"written: {', '.join(map(str, write_result(result, target, options.study)))}")
