"""Parts and configuration of another package: what it may bring, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from commands import type_in
from simulmt import parts
from simulmt.decoding.policies import POLICIES
from simulmt.decoding.policy import Counts, Demands, Draft, DraftPolicy, Subword
from simulmt.errors import UserError
from simulmt.files import plugins
from simulmt.files.instances import read_instances
from simulmt.files.plugins import broken
from simulmt.parts import Parts
from simulmt.programs.evaluate import evaluate
from simulmt.programs.serve import policy_offers
from simulmt.system.ending import TERMINATED, Ended
from small_runs import LONGER, ROOT, TINY, configuration

OF_EVERY_KIND = '''
"""One part of every kind, under names of its own."""

from dataclasses import dataclass

from simulmt.attention import Lookback, WaitK
from simulmt.attention.scores import General
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.policy import DraftPolicy
from simulmt.models.transformer import Transformer
from simulmt.objective import LatencyAugmented
from simulmt.parts import Parts
from simulmt.latency import Metric


def first_delay(delays, source, target):
    """The first delay of each sentence."""
    return delays[:, 0]


@dataclass(frozen=True)
class Held(DraftPolicy):
    """Writes all of a draft, once n source words have been read."""

    n: int
    past = 0

    def commit(self, counts, drafts):
        return len(drafts[-1].words) if counts.words_read >= self.n else 0


parts = Parts(
    schedules={"late": WaitK},
    spans={"back": Lookback},
    scores={"bilinear": General},
    models={"thin": Transformer},
    corpora={"toy": verbfinal},
    objectives={"own": LatencyAugmented},
    policies={"held": Held},
    latencies={"FIRST": Metric("FIRST", first_delay, "")},
)
'''
CONF = {
    "mechanism/late": "defaults: [wait_k, override /objective@_global_.objective: own, _self_]\n"
    "name: late\nschedule: late\nspan: back\nscore: bilinear\nk: 4\n",
    "model/thin": "defaults: [transformer, _self_]\nname: thin\n",
    "data/toy": "defaults: [verbfinal, _self_]\nname: toy\ncorpus: toy\n",
    "objective/own": "defaults: [latency_augmented, _self_]\nname: own\nlatency: first\n",
    "policy/held": "name: held\nn: 6\n",
    "experiments/short": "# @package _global_\ntrainer: {max_updates: 6, validate_every: 3}\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the module `kinds`, its configuration, and modules that are no plugins."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "kinds.py").write_text(OF_EVERY_KIND)
    (folder / "text").write_text("das ist ein Haus\n")
    (folder / "broken.py").write_text("import nothing_of_that_name\n")
    (folder / "bare.py").write_text("")
    (folder / "misspelt.py").write_text("import simulmt.parts as p\np.Parts(policy={})\n")
    (folder / "ends").mkdir()
    ends = "import asyncio\nraise asyncio.CancelledError\n"  # no Exception
    (folder / "ends" / "__init__.py").write_text(ends)
    (folder / "torn").mkdir()
    (folder / "torn" / "__init__.py").write_text("raise RuntimeError('boom')\n")
    (folder / "evil.py").write_text("import pathlib\npathlib.Path('touched').touch()\n")
    for name, text in CONF.items():
        path = folder / "conf" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_one_part_of_every_kind_trains_and_is_scored(folder):
    plugin, chosen = "plugins=[kinds]", ["mechanism=late", "model=thin", "data=toy"]
    checkpoint = ["checkpoint=runs/own", plugin]
    lines = [
        ["train", *TINY, *chosen, "experiments=short", plugin, "hydra.run.dir=runs/own"],
        ["evaluate", *checkpoint, "device=cpu", "policy=held"],
        ["translate", *checkpoint, "input=text", "policy=held"],
        ["translate", *checkpoint, "picture=a.svg", "policy=held"],
        ["report", "runs=runs", "latency=FIRST", "resamples=40", plugin],
    ]
    typed = ([ROOT / f"{verb}.py", *words] for verb, *words in lines)
    answers = type_in(*typed, cwd=folder)
    assert [answer.status for answer in answers] == [0, 0, 0, 2, 0], answers
    assert "picture=a.svg with policy=held" in answers[3].err
    assert "FIRST" in answers[-1].out
    assert (folder / "runs/curve-FIRST.png").is_file()
    assert "FIRST_subword" in (folder / "runs/curves.csv").read_text()
    run = folder / "runs/own"
    assert first_delay(run / "test_scores.json") == 4
    assert first_delay(run / "evaluation/test-best-policyheld-n6/scores.json") >= 6
    passport = torch.load(run / "checkpoints/best.ckpt", weights_only=True)["simulmt"]
    assert [*passport["needs"]] == ["kinds"]
    assert "kinds" in json.loads((run / "provenance.json").read_text())["versions"]


def test_the_policy_of_the_page_writes_after_every_n_words(trained_once, tmp_path, monkeypatch):
    page = (ROOT / "docs/plugins.md").read_text("utf-8").partition("### A policy")[2]
    code, options = (
        re.search(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
        for language in ("python", "yaml")
    )
    (tmp_path / "stride.py").write_text(code)
    (tmp_path / "conf/policy").mkdir(parents=True)
    (tmp_path / "conf/policy/stride.yaml").write_text(options)
    run = shutil.copytree(trained_once(*LONGER, "mechanism=soft"), tmp_path / "RUN")
    chosen = ["checkpoint=RUN", "plugins=[stride]", "policy=stride", "policy.n=3", "device=cpu"]
    (answer,) = type_in([ROOT / "evaluate.py", *chosen], cwd=tmp_path)
    assert answer.status == 0, answer.err
    written = read_instances(run / "evaluation/test-best-policystride-n3/instances.log")
    delays = {(delay, one.source_length) for one in written for delay in one.delays}
    assert any(delay < length for delay, length in delays)
    assert all(delay % 3 == 0 or delay == length for delay, length in delays)


def test_the_other_policy_of_the_page_halts_where_the_model_is_unsure():
    page = (ROOT / "docs/plugins.md").read_text("utf-8").partition("### A policy")[2]
    _, code, *_ = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "sure", "exec", dont_inherit=True), names)
    policy, counts = names["Sure"](h=math.log(2)), Counts(1, 1, 0)
    rows = ([1, 0, 0], [0.9, 0.1, 0], [0.6, 0.2, 0.2], [1, 0, 0])
    draft = [Subword(0, True, p[0], math.nan, np.ones(1), [], np.array(p)) for p in rows]
    assert policy.commit(counts, [Draft((), ((7,),) * 3, tuple(draft))]) == 2
    assert policy.demands(zoo.MECHANISMS["soft"]) == Demands(distribution=True)


def first_delay(scores: Path) -> float:
    figure = json.loads(scores.read_text())["figures"]["paper"]["subword"]["FIRST"]
    assert figure["signature"].startswith("FIRST|u:subword|")
    return figure["value"]


def load(word: str) -> None:
    """What a program does with the plugins of its command line."""
    modules = plugins.named([word])
    plugins.conf_folders(modules)
    parts.load(modules)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("plugins=[absent]", "plugins=absent: there is no such package"),
        (
            "plugins=[broken]",
            "plugins=broken cannot be imported (ModuleNotFoundError: No module na",
        ),
        ("plugins=[ends]", "plugins=ends cannot be imported (CancelledError:)"),
        ("plugins=[ends.inner]", "plugins=ends.inner cannot be imported (CancelledError:)"),
        ("plugins=[torn.inner]", "plugins=torn.inner cannot be imported (RuntimeError: boom)"),
        ("plugins=[bare]", "bare.py has no variable `parts`"),
        ("plugins=bare", "'plugins=bare' is not a list of packages"),
        ("plugins=[misspelt]", "Parts.__init__ policy Unexpected keyword argument"),
    ],
)
def test_what_is_no_plugin_is_refused_in_one_line(folder, monkeypatch, named, said):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        load(named)
    assert "\n" not in str(refused.value)


@dataclass(frozen=True)
class Named(DraftPolicy):
    mode: str = "fast"

    def commit(self, counts, drafts) -> int:
        return 0


def test_a_policy_with_text_is_not_for_the_page(tmp_path, monkeypatch):
    (tmp_path / "with_text.py").write_text("")
    (tmp_path / "conf" / "policy").mkdir(parents=True)
    (tmp_path / "conf" / "policy" / "named.yaml").write_text("name: named\nmode: fast\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(POLICIES, "named", Named)
    import_module("with_text")
    offered = {offer.name for offer in policy_offers(["with_text"])}
    assert "named" not in offered
    assert "hold_n" in offered


def test_a_policy_of_a_plugin_that_was_not_named_is_left_out_of_the_page(
    tmp_path, monkeypatch, capsys
):
    """Two modules of one folder share its `conf`."""
    (tmp_path / "one_of_two.py").write_text("")
    (tmp_path / "conf" / "policy").mkdir(parents=True)
    (tmp_path / "conf" / "policy" / "other.yaml").write_text("name: other\nn: 1\n")
    (tmp_path / "conf" / "policy" / "_shared.yaml").write_text("n: 1\n")
    (tmp_path / "conf" / "policy" / "long.yaml").write_text("defaults: [wait_k, _self_]\nk: 9\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("one_of_two")
    offered = {offer.name for offer in policy_offers(["one_of_two"])}
    assert offered == {offer.name for offer in policy_offers([])}
    said = capsys.readouterr().err
    assert (
        "other.yaml is left out: no loaded plugin has a policy other; plugins= loads more" in said
    )
    assert "long.yaml is left out: the page offers policies whose file has a name and all" in said
    assert "_shared" not in said


def test_an_installed_plugin_that_is_gone_is_called_so(monkeypatch):
    monkeypatch.setattr(plugins, "installed", lambda: ("gone",))
    path = [*sys.path]
    assert plugins.conf_folders([]) == {}, "the user may not need it"
    with pytest.raises(UserError, match=r"^installed plugin gone: there is no such"):
        plugins.conf_folders(["gone"])
    assert sys.path == path, "only what the user names is looked for in the current directory"


def test_a_signal_while_a_plugin_is_imported_ends_the_command():
    for error in (KeyboardInterrupt(), Ended(TERMINATED)):
        with pytest.raises(type(error)):
            broken("slow", error)


def test_an_installed_plugin_that_is_broken_stops_nobody_else(folder, monkeypatch, capsys):
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(parts, "installed", lambda: ("broken",))
    parts.load()
    assert "broken cannot be imported (ModuleNotFoundError" in capsys.readouterr().err
    with pytest.raises(UserError, match="broken cannot be imported"):
        parts.load(["broken"])


def test_a_checkpoint_makes_nothing_be_imported(folder, trained_once, tmp_path, monkeypatch):
    """Neither its configuration nor its passport: both are only names."""
    run = trained_once("mechanism=wait_k")
    checkpoint = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    checkpoint["simulmt"]["config"]["plugins"] = ["evil"]
    checkpoint["simulmt"]["needs"] = {"evil": "1.0"}
    torch.save(checkpoint, tmp_path / "model.ckpt")
    monkeypatch.chdir(folder)
    with pytest.raises(UserError, match=r"uses parts of evil 1\.0"):
        evaluate(configuration("evaluate", f"checkpoint={tmp_path / 'model.ckpt'}", "device=cpu"))
    assert not (folder / "touched").exists()


def test_a_name_that_is_taken_is_refused(monkeypatch):
    taken = Parts(schedules={"own": parts.SCHEDULES["wait_k"], "wait_k": parts.SCHEDULES["wait_k"]})
    monkeypatch.setattr(parts, "locate", Path)
    monkeypatch.setattr(parts, "import_module", lambda module: SimpleNamespace(parts=taken))
    with pytest.raises(UserError, match=r"mechanism\.schedule=wait_k is already taken by simulmt"):
        parts.load(["another"])
    assert "own" not in parts.SCHEDULES, "all of its parts or none"


def test_the_version_of_a_plugin_tells_its_code(folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = plugins.version_of("bare")
    (folder / "bare.py").write_text("more = 1\n")
    assert plugins.version_of("bare") != before
    (folder / "whole").mkdir()
    for name in ("__init__.py", "plug.py", "core.py"):
        (folder / "whole" / name).touch()
    before = plugins.version_of("whole.plug")
    (folder / "whole" / "core.py").write_text("more = 1\n")
    assert plugins.version_of("whole.plug") != before
