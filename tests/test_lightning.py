"""What a user hands to Lightning: arguments of its Trainer, callbacks and loggers by `_target_`."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import CSVLogger

from simulmt.errors import UserError
from simulmt.programs.evaluate import evaluate
from simulmt.programs.plain import plain
from simulmt.programs.report import report
from simulmt.programs.run_spec import RunSpec
from simulmt.programs.translate import translate
from simulmt.saved import checkpoint
from simulmt.serve.models import Served
from simulmt.training.lightning_arguments import OWNED
from small_runs import configuration, metrics, run, weights

pytestmark = pytest.mark.usefixtures("no_pictures")


class Counter(Callback):
    """A callback of a user's own package, with a state."""

    def __init__(self, first: object = 0) -> None:
        self.updates = first

    def on_train_start(self, trainer: Trainer, *_: object) -> None:
        with (Path(trainer.default_root_dir) / "started_at").open("a") as file:
            file.write(f"{self.updates}\n")

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        self.updates += 1

    def state_dict(self) -> dict[str, object]:
        return {"updates": self.updates}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        self.updates = state_dict["updates"]


def strange(first: float) -> Counter:
    """A callback whose state a checkpoint cannot hold."""
    return Counter(np.float64(first))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *((f"{name}:1", f"{name}: set {option} instead") for name, option in OWNED.items()),
        ("plugins:1", "'plugins'"),
        ("barebones:true", "barebones"),
        ("profiler:no", "'simple', 'advanced'"),
        ("no_such:1", "'no_such'"),
        ("overfit_batches:many", "trainer.lightning: "),
    ],
)
def test_arguments_that_an_option_owns_or_lightning_rejects_end_in_one_line(arguments, said):
    with pytest.raises(UserError) as refused:
        RunSpec.of(plain(configuration("train", f"trainer.lightning={{{arguments}}}")))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_trial_neither_resumes_a_run_nor_has_scores(tmp_path, cache, capsys):
    trial = "trainer.lightning={fast_dev_run:true}"
    with pytest.raises(FileNotFoundError):
        run(tmp_path, cache, trial)
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "no validation has written a checkpoint, so there are no test scores"
    with pytest.raises(UserError, match=r"fast_dev_run .* ckpt_path=last"):
        run(tmp_path, cache, trial, "ckpt_path=last")


def test_every_line_has_the_mean_loss_since_the_line_before(tmp_path, cache, capsys):
    """Also before the first row of the metrics, and for a loss that grows with every term."""
    run(tmp_path / "rows", cache)
    capsys.readouterr()
    run(tmp_path / "none", cache, "trainer.log_every=100")
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("update ")]
    shown = [float(re.search(r"loss ([\d.]+)", line)[1]) for line in said]
    losses = [float(row["train/loss"]) for row in metrics(tmp_path / "rows")]
    for mean, part in zip(shown, (losses[:3], losses[3:]), strict=True):
        assert min(part) - 1e-3 <= mean <= max(part) + 1e-3


def test_a_line_without_a_new_update_repeats_the_loss(tmp_path, cache, capsys, monkeypatch):
    """With a line after each update, that of a validation has none of its own."""
    monkeypatch.setattr("simulmt.training.progress.EVERY", -1)
    run(tmp_path, cache)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("update ")]
    assert any("dev BLEU" in line for line in said)
    for before, line in pairwise(said):
        assert "nan" not in line
        if "dev BLEU" in line:
            assert re.search(r"loss [\d.]+", line)[0] == re.search(r"loss [\d.]+", before)[0]


def test_arguments_reach_the_trainer(tmp_path, cache):
    """With `overfit_batches=1` every update has the same batch, and without noise the same loss."""
    fixed = ["model.dropout=0", "mechanism.noise=0", "optim.lr=1e-20"]
    run(tmp_path, cache, "trainer.lightning={overfit_batches:1}", *fixed)
    assert len({row["train/nll"] for row in metrics(tmp_path)}) == 1


@pytest.mark.filterwarnings("ignore:Be aware that when using")
def test_callbacks_are_those_of_the_present_command(tmp_path, cache):
    """A resumed run restores the state of a callback that the command names again."""
    named = "callbacks={mine:{_target_:test_lightning.Counter}}"
    run(tmp_path, cache, named, "trainer.max_updates=3")
    run(tmp_path, cache, named, "ckpt_path=last")
    assert (tmp_path / "started_at").read_text().split() == ["0", "3"]
    run(tmp_path, cache, "trainer.max_updates=9", "ckpt_path=last")
    assert (tmp_path / "started_at").read_text().split() == ["0", "3"]  # named by files alone


def test_a_state_that_no_checkpoint_can_hold_ends_at_the_first_one(tmp_path, cache):
    named = "callbacks={mine:{_target_:test_lightning.strange,first:1.5}}"
    with pytest.raises(UserError, match="callbacks: a state holds numpy"):
        run(tmp_path, cache, named)
    assert not [*tmp_path.rglob("*.ckpt*")]


def test_a_logger_by_target_gets_the_metrics(tmp_path, cache, monkeypatch):
    seen = []
    monkeypatch.setattr(CSVLogger, "log_metrics", lambda _, metrics, step: seen.append({*metrics}))
    target = f"{{_target_:pytorch_lightning.loggers.CSVLogger,save_dir:'{tmp_path}'}}"
    run(tmp_path, cache, "~logger", f"+logger={target}")
    assert {"train/loss", "valid/BLEU", "test/BLEU"} <= set.union(*seen)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "callbacks={a:{_target_:no.Such}}",
            "no.Such makes no pytorch_lightning Callback: Error loading",
        ),
        ("callbacks={a:{_target_:json.loads,s:'1'}}", "callbacks.a._target_ is json.loads, but"),
        ("callbacks={a:{b:c}}", "callbacks.a._target_ is None"),
        (
            "callbacks={a:{_target_:pytorch_lightning.callbacks.ModelSummary,_partial_:true}}",
            "callbacks.a._target_ is pytorch_lightning.callbacks.ModelSummary, but",
        ),
        ("logger._target_=json.loads", "Logger: loads() missing 1 required positional argument"),
    ],
)
def test_what_is_no_callback_or_logger_ends_in_one_line(word, said, tmp_path, cache):
    with pytest.raises(UserError) as refused:
        run(tmp_path, cache, word)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not [*tmp_path.iterdir()]


def poisoned(place: Path, run_directory: Path) -> Path:
    """A copy of a run whose files name a `_target_` wherever there is a configuration."""
    evil = {"_target_": "os.mkdir", "_args_": [str(place / "executed")]}
    folder = shutil.copytree(run_directory, place / "run")

    def bad(config: dict) -> dict:
        named = {"callbacks": {"a": evil}, "logger": evil}
        return {**config, **named, "trainer": {**config["trainer"], "lightning": {"x": evil}}}

    path = folder / "config.json"
    path.write_text(json.dumps(bad(json.loads(path.read_text()))))
    (folder / ".hydra").mkdir(exist_ok=True)
    OmegaConf.save(bad(json.loads(path.read_text())), folder / ".hydra" / "config.yaml")
    for name in ("provenance.json", "manifest.json", "traits.json", "test_scores.json"):
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), "callbacks": {"a": evil}}))
    for path in (folder / "checkpoints").glob("*.ckpt"):
        content = torch.load(path, weights_only=True)
        content["simulmt"]["config"] = bad(content["simulmt"]["config"])
        torch.save({**content, "callbacks": {**content["callbacks"], "a": evil}}, path)
    return folder


@pytest.mark.filterwarnings("ignore:Be aware that when using")
def test_no_target_of_a_run_or_a_checkpoint_is_executed(trained_once, tmp_path, cache):
    trained = trained_once("mechanism=mma_il", "lambda=0.2")
    folder, place = poisoned(tmp_path, trained), f"checkpoint={tmp_path / 'run'}"
    (tmp_path / "text").write_text("der Mann schläft .\n")
    files = [f"input={tmp_path / 'text'}", f"output={tmp_path / 'out'}"]
    verbs = {
        "evaluate": lambda: evaluate(configuration("evaluate", place, "device=cpu")),
        "translate": lambda: translate(configuration("translate", place, *files)),
        "report": lambda: report(configuration("report", f"runs={tmp_path}", "resamples=10")),
        "serve": lambda: Served("a", checkpoint.load(folder), "cpu", []),
        "init_from": lambda: run(tmp_path / "next", cache, f"init_from={folder}"),
        "resume": lambda: run(folder, cache, "ckpt_path=last", "trainer.max_updates=9"),
    }
    for verb, work in verbs.items():
        if verb == "resume":  # which a corrupt provenance would prevent
            shutil.copy(trained / "provenance.json", folder)
        with suppress(UserError):  # a corrupt record may be rejected
            work()
        assert not (tmp_path / "executed").exists(), verb
    assert weights(folder)
    assert json.loads((folder / "config.json").read_text())["callbacks"] is None
