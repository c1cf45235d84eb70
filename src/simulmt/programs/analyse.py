"""`analyse.py`: a study of finished runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from simulmt.analysis.page import REMEDY
from simulmt.analysis.runs.found import comparable, find_runs
from simulmt.analysis.studies import STUDIES
from simulmt.analysis.studies.run_set import RunSet, write_result
from simulmt.options import asked_of, construct, pick
from simulmt.parts.builders import pick_device
from simulmt.programs.plain import plain
from simulmt.system.disk import check_writable


@dataclass(frozen=True)
class AnalyseOptions:
    """The options of `conf/analyse.yaml` that all studies share."""

    study: Any
    runs: Path
    to: Path | None
    decodings: bool
    device: str
    data_root: Path | None


def analyse(cfg: DictConfig) -> None:
    """Run a study, and print the paths of its figure and its table.

    Raises:
        UserError: a mistake that a user can correct.
    """
    given = plain(cfg)
    own = {name: given.pop(name) for name in asked_of(AnalyseOptions)}
    of_study = {name: value for name, value in given.items() if value is not None}
    options = construct(AnalyseOptions, own, "")
    study, folder = pick(STUDIES, options.study, "study"), options.runs
    found, target = find_runs(folder, options.decodings), options.to or folder / "analysis"
    check_writable(target, REMEDY)
    for note in found.left_out:
        print(f"left out: {note}")
    runs = comparable(found, folder)
    run_set = RunSet(folder, runs, options.data_root, pick_device(options.device))
    result = construct(study, of_study, f"study={options.study}", {"run_set": run_set})
    print(f"written: {', '.join(map(str, write_result(result, target, options.study)))}")
