"""Weights & Biases, offline: what a run shows there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import wandb
from pytorch_lightning.loggers import Logger, WandbLogger

from simulmt.errors import UserError
from simulmt.options import flat_options
from simulmt.parts.configuration import Configuration
from simulmt.programs.plain import plain
from simulmt.programs.targets import make_target
from simulmt.programs.train import train
from simulmt.training.weights_and_biases import WeightsAndBiases, wandb_name
from small_runs import SMALL, configuration


@pytest.fixture(scope="module")
def logged(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    chosen = ["mechanism=mma_il", "lambda=0.2", "logger=wandb", "logger.mode=offline"]
    config = configuration("train", *SMALL, *chosen, f"cache={folder / 'cache'}")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            patch.delenv(name)
        patch.setenv("WANDB_SWEEP_ID", "a_sweep")
        patch.setenv("WANDB_RUN_ID", "by_the_agent")
        patch.setattr(wandb, "init", recording(wandb.init, folder / "started.json"))
        patch.setattr(WandbLogger, "log_metrics", naming(WandbLogger.log_metrics, folder))
        train(config, str(folder))
    return folder


def recording(init, path):
    """Return `wandb.init`, which also writes its options as JSON."""

    def recorded(**options):
        path.write_text(json.dumps(options, default=str))
        return init(**options)

    return recorded


def naming(log_metrics, folder):
    """Return `log_metrics`, which also appends the names of the metrics to a file."""

    def named(self, metrics, step=None):
        with (folder / "names").open("a") as file:
            file.writelines(f"{name}\n" for name in metrics)
        log_metrics(self, metrics, step)

    return named


def test_the_names_that_dashboards_and_queries_use(logged):
    scores = ["BLEU", "chrF"]
    for unit in ("word", "subword"):
        scores += [f"{unit}/{name}" for name in ("AP", "AL", "AL_ref", "LAAL", "DAL", "CW")]
    training = ("loss", "nll", "lr", "tokens_per_s", "latency", "variance", "lambda")
    assert {*(logged / "names").read_text().splitlines()} == {
        *(f"train/{name}" for name in training),
        *(f"valid/{name}" for name in ("nll", "selection", *scores)),
        *(f"test/{name}" for name in scores),
        *("valid/samples", "test/samples", "test/path", "epoch"),
    }
    started = json.loads((logged / "started.json").read_text())
    assert (started["project"], started["group"]) == ("simulmt", "mma_il")
    assert (started["name"], started["job_type"]) == ("mma_il lambda=0.2 seed=1", "train")
    assert started["tags"] == ["verbfinal", "transformer"]
    flat = flat_options(started["config"])
    values = {"lambda": 0.2, "lambda_var": 0.0, "seed": 1, "mechanism.name": "mma_il"}
    values |= {"model.name": "transformer", "data.name": "verbfinal", "teacher.kind": "none"}
    assert {name: flat[name] for name in values} == values
    assert {"objective.name", "optim.lr", "trainer.max_updates", "decoding.beam"} <= {*flat}


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_one_line_says_that_a_run_is_offline(mode, tmp_path, monkeypatch, capfd):
    """With WANDB_MODE=offline, and without a login."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", mode)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    config = Configuration.of(plain(configuration("train", "logger=wandb")))
    assert config.logger["mode"] == mode
    opened = make_target(config.logger, "logger", Logger, later=True)(tmp_path, None, config)
    opened.close(failed=False)
    out, err = capfd.readouterr()
    assert out.startswith("W&B logs offline" + " (No API key" * (mode == "online"))
    run_id = (tmp_path / "wandb_id").read_text()
    pattern = out.rpartition("wandb sync ")[2].strip()
    assert pattern == str(tmp_path / "wandb" / f"offline-run-*-{run_id}")
    assert len([*(tmp_path / "wandb").glob(Path(pattern).name)]) == 1
    assert (out.count("\n"), err) == (1, "")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("logger.mode=of", r"logger\.mode is 'of'; it must be 'online', 'offline' or 'disabled'"),
        ("logger.project=team/simulmt", r"logger\.project is 'team/simulmt'; it must be 1 to"),
        ("+logger.team=us", r"logger has no option team; its options are: project, entity, mode"),
    ],
)
def test_a_mistyped_option_is_an_error_before_anything_is_logged(typed, said):
    config = Configuration.of(plain(configuration("train", "logger=wandb", typed)))
    with pytest.raises(UserError, match=said):
        make_target(config.logger, "logger", Logger, later=True)


def test_an_upload_that_takes_too_long_is_told(tmp_path, capsys):
    finish = Mock(side_effect=TimeoutError)
    run = SimpleNamespace(finish=finish, dir=str(tmp_path / "run-1" / "files"))
    WeightsAndBiases.close(SimpleNamespace(experiment=run), failed=False)
    finish.assert_called_once_with(exit_code=0)
    assert capsys.readouterr().out.endswith(f"upload it with wandb sync {tmp_path / 'run-1'}\n")


def test_runs_are_named_by_what_sets_their_latency():
    def named(*overrides: str) -> str:
        return wandb_name(Configuration.of(plain(configuration("train", *overrides))))

    assert named("mechanism=mma_il", "lambda=0.2") == "mma_il lambda=0.2 seed=1"
    assert named("mechanism=wait_k", "mechanism.k=5", "seed=3") == "wait_k k=5 seed=3"
    assert named("mechanism=milk", "name=mine") == "mine: milk seed=1"
    assert named("mechanism=milk", "lambda_var=0.1") == "milk lambda_var=0.1 seed=1"
