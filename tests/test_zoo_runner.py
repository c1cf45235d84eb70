"""The runner of all mechanisms on all models, without training: grid, commands, skipping, table."""

from __future__ import annotations

import csv
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from hydra import compose, initialize_config_dir

from made_up import make_run, record_training
from simulmt.analysis.grid import make_cells, make_rows, write_files
from simulmt.errors import UserError
from simulmt.programs.choices import check_choices
from simulmt.programs.plain import plain

ROOT = Path(__file__).parents[1]
MECHANISMS = sorted(path.stem for path in (ROOT / "conf" / "mechanism").glob("*.yaml"))


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("zoo_runner", ROOT / "experiments/zoo/zoo.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


runner = load()
GRID = runner.make_grid(["transformer"], None)


def finish(folder: Path, pair: runner.Pair, updates: int, bleu: float = 90.0) -> None:
    """A finished run of a pair."""
    weight = {"lambda": runner.LAMBDA} if pair.learned else {}
    run = make_run(folder / pair.name, pair.mechanism, weight, bleu, 4)
    text = yaml.safe_dump(runner.overrides(pair, updates))
    (run / ".hydra").mkdir(exist_ok=True)
    (run / ".hydra" / "overrides.yaml").write_text(text)
    record_training(run, 764672, 5678.9)


def child(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


def test_the_grid_is_all_files_on_each_model():
    assert [pair.mechanism for pair in GRID] == MECHANISMS
    assert {p.mechanism for p in GRID if not p.learned} >= {"soft", "wait_k"}
    assert {p.mechanism for p in GRID if p.learned} >= {"mma_il", "mocha"}
    two = runner.make_grid(["transformer", "transformer_wmt15"], ["soft", "milk"])
    names = ["transformer/soft", "transformer/milk"]
    assert [p.name for p in two] == [*names, *(n.replace("former", "former_wmt15") for n in names)]


@pytest.mark.parametrize(("models", "mechanisms"), [(["gru"], None), (["transformer"], ["gru"])])
def test_unknown_names(models, mechanisms):
    with pytest.raises(UserError, match=r"no (model|mechanism) gru; choose from .*(former|soft)"):
        runner.make_grid(models, mechanisms)


@pytest.mark.parametrize("updates", [1600, 60, 7, 1])
@pytest.mark.parametrize("pair", runner.make_grid(runner.MODELS, None), ids=lambda pair: pair.name)
def test_a_training_is_what_train_takes(pair, updates):
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = plain(compose("train", runner.overrides(pair, updates)))
    plan = check_choices(config).plan
    assert config["lambda"] == (0.2 if pair.learned else 0)
    assert plan.max_updates == updates
    assert config["objective"]["hold"] == int(updates * 0.4)


def test_a_finished_run_is_skipped_and_one_with_other_settings_is_refused(tmp_path):
    pair, folder = GRID[0], tmp_path / GRID[0].name
    wanted = runner.overrides(pair, 60)
    assert not runner.is_finished(folder, wanted)
    finish(tmp_path, pair, 60)
    assert runner.is_finished(folder, wanted)
    with pytest.raises(UserError, match=r"other settings \(.*trainer.max_updates=60.*--runs"):
        runner.is_finished(folder, runner.overrides(pair, 80))
    (folder / "test_scores.json").unlink()
    assert not runner.is_finished(folder, wanted)


def test_only_what_is_missing_is_trained(tmp_path, monkeypatch):
    for pair in GRID[1:]:
        finish(tmp_path, pair, 60)
    begun = []

    def start(pair, runs, updates):
        begun.append(pair)
        (runs / pair.name).mkdir(parents=True)
        (runs / pair.name / runner.LOG).write_text("")
        finish(runs / "elsewhere", pair, updates)
        return child("")

    monkeypatch.setattr(runner, "start", start)
    notes = runner.train_missing(GRID, tmp_path, 60, 2, runner.Console(quiet=True))
    assert (begun, notes) == ([GRID[0]], {})


def test_so_many_at_a_time_and_each_status_is_told():
    told, shown = {}, []
    runner.train_all(
        GRID[:3],
        2,
        lambda pair: child(f"raise SystemExit({GRID.index(pair)})"),
        shown.append,
        lambda pair, status: told.update({pair: status}),
    )
    assert told == {GRID[0]: 0, GRID[1]: 1, GRID[2]: 2}
    assert shown[0] == [GRID[0].name, GRID[1].name]
    assert max(map(len, shown)) == 2


def test_an_interruption_ends_the_trainings():
    children = []

    def begin(pair):
        children.append(child("import time; time.sleep(60)"))
        return children[-1]

    def interrupt(names):
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        runner.train_all(GRID[:2], 2, begin, interrupt, print)
    assert [process.poll() is None for process in children] == [False, False]
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("status", "text", "outcome", "message"),
    [
        (2, "error: a\nerror: milk streams\n  see there\n", "refused", "milk streams"),
        (2, "usage\n", "failed", "exit status 2: usage (see a/b/output.log)"),
        (
            1,
            "Traceback\nValueError: x\n\n",
            "failed",
            "status 1: ValueError: x (see a/b/output.log)",
        ),
        (-9, "", "failed", "exit status -9: no output (see a/b/output.log)"),
    ],
)
def test_why_there_is_no_result(status, text, outcome, message, tmp_path):
    log = tmp_path / runner.LOG
    log.write_text(text)
    found = runner.explain(status, "a/b", log)
    assert found[0] == outcome
    assert found[1].endswith(message)
    assert runner.explain(0, "a/b", log) is None


def test_the_table(tmp_path):
    first, second, third = GRID[:3]
    finish(tmp_path, first, 60, 91.26)
    notes = dict.fromkeys((second.name, third.name), ("refused", "it cannot"))
    rows = make_rows([pair.name for pair in GRID[:4]], tmp_path, notes)
    cells, footnotes = make_cells(rows)
    figures = ["91.3", "2.00", "4.00", "2.00", "764,672", "5,679"]
    assert cells[0] == ["transformer", first.mechanism, *figures]
    for line, pair in zip(cells[1:3], (second, third), strict=True):
        assert line == ["", pair.mechanism, "refused [1]", *["–"] * 5]
    assert cells[3][2] == "failed [2]"
    assert footnotes[0] == "[1] it cannot"
    assert footnotes[1].startswith("[2] no scores")
    write_files(rows, tmp_path, "60 updates")
    with (tmp_path / "zoo.csv").open(newline="") as file:
        written = [*csv.DictReader(file)]
    assert [row["outcome"] for row in written] == ["trained", "refused", "refused", "failed"]
    assert written[0]["BLEU"] == "91.26"
    assert {row["model"] for row in written} == {"transformer"}
    text = (tmp_path / "zoo.md").read_text()
    assert f"| transformer | {first.mechanism} | {' | '.join(figures)} |" in text
    assert "[1] it cannot\n" in text
    assert text.endswith("\n60 updates\n")


def run_finished(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    chosen = ["--models=transformer", "--mechanisms=soft,milk", "--updates=60", f"--runs={folder}"]
    command = [sys.executable, "experiments/zoo/zoo.py", *chosen, *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_program_on_finished_runs(tmp_path):
    for pair in runner.make_grid(["transformer"], ["soft", "milk"]):
        finish(tmp_path, pair, 60)
    done = run_finished(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 of 2 runs are finished already" in done.stdout
    assert "764,672" in done.stdout
    wrong = run_finished(tmp_path, "--updates=80")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith(f"error: {tmp_path / 'transformer' / 'soft'} holds a run with")
    damaged = tmp_path / "transformer" / "milk" / "test_scores.json"
    damaged.write_text(json.dumps({}))
    assert run_finished(tmp_path).returncode == 1
