"""Every mechanism that `conf/mechanism` offers, to hold them to the laws on every model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet

from simulmt.laws.case import Case
from simulmt.laws.sentences import VOCABULARY as SPECIAL
from simulmt.laws.sentences import forced_steps, sentences, short_limit
from simulmt.laws.small import BY_WORD, GUIDED, REENCODING, SMALL, VARIANTS
from simulmt.models.model import Model
from simulmt.parts.builders import build_mechanism

__all__ = ["GUIDED", "REENCODING", "SMALL", "forced_steps", "sentences", "short_limit"]

CONF = Path(__file__).parents[1] / "conf"
VOCABULARY, (PAD, UNK, BOS, EOS) = SPECIAL.size, SPECIAL.special


def yaml_of(name: str) -> dict[str, Any]:
    return yaml.safe_load((CONF / f"{name}.yaml").read_text())


def limit_length(monkeypatch: pytest.MonkeyPatch, limit: Any = short_limit) -> None:
    """Set an earlier limit for all models: untrained ones rarely end early."""
    monkeypatch.setattr(Model, "length_limit", staticmethod(limit))


def options(name: str) -> dict[str, Any]:
    chosen = yaml_of(f"mechanism/{name}")
    chosen.pop("defaults", None)  # other groups, such as the objective
    return chosen


UNPUBLISHED = {
    "wait_k-source words": options("wait_k") | {"source_unit": "word"},
    "wait_k-target words": options("wait_k") | {"target_unit": "word"},
    "mma_il-source words": options("mma_il") | {"source_unit": "word"},
    "mma_il-target words": options("mma_il") | {"target_unit": "word"},
    "milk-window words": options("milk")
    | {"span": "window", "window": 2, "gaussian": False, "source_unit": "word"},
    "wait_k-chunk": options("wait_k") | {"span": "chunk", "chunk": 2},
    "wait_k-predicted": options("wait_k") | {"span": "predicted_window", "window": 2},
    "milk-window": options("milk") | {"span": "window", "window": 2, "gaussian": False},
    "milk-gaussian": options("milk") | {"span": "window", "window": 2, "gaussian": True},
    "mma_il-predicted": options("mma_il") | {"span": "predicted_window", "window": 3},
}


WORDS = {"source_unit": "word", "target_unit": "word"}


def every_mechanism() -> list[tuple[str, dict[str, Any]]]:
    """All files; a variant of each that lets mass run off the end if it can, narrow windows, the
    other emission rate of the papers, and combinations that no paper has.
    """
    found = [*UNPUBLISHED.items()]
    for path in sorted((CONF / "mechanism").glob("*.yaml")):
        chosen = options(path.stem)
        found.append((path.stem, chosen))
        if "mass_preservation" in chosen:
            found.append((f"{path.stem}-leaky", chosen | {"mass_preservation": False}))
        if "window" in chosen:
            found.append((f"{path.stem}-narrow", chosen | {"window": 2}))
        if "source_unit" in chosen:
            narrow = {"window": 2} if "window" in chosen else {}
            words = {"source_unit": "word"} if path.stem == "hmt" else WORDS  # it writes subwords
            found.append((f"{path.stem}-words", chosen | words | narrow))
        if path.stem == "wait_k":
            found.append(("wait_k-faster", chosen | {"emission_rate": 1.1}))
    return found


MECHANISMS = dict(every_mechanism())
STREAMING = [name for name, chosen in MECHANISMS.items() if not build_mechanism(chosen).offline]
OFFLINE = [name for name in MECHANISMS if name not in STREAMING]
LEARNED = [name for name, chosen in MECHANISMS.items() if build_mechanism(chosen).learned]
READS_ALL = "luong_local_m"  # its window is longer than the sentences of the laws
SIZES = SMALL | VARIANTS


def case(chosen: dict[str, Any], kind: str = "transformer", **overrides: Any) -> Case:
    """A small model of some kind, for a law."""
    return Case(build_mechanism(chosen), partial(SIZES[kind], **overrides))


def model(
    chosen: dict[str, Any], seed: int = 0, kind: str = "transformer", **overrides: Any
) -> Model:
    """A small float64 model whose learned heads take varied decisions; the caller may change it."""
    return case(chosen, kind, **overrides).model(seed)


def fresh(chosen: dict[str, Any], kind: str = "transformer") -> Model:
    """The same with its initial weights, in float32."""
    found = case(chosen, kind)
    return found.make(mechanism=found.mechanism).eval()


def pairs(names: Iterable[str]) -> list[ParameterSet]:
    """Each of these mechanisms on each kind of model that takes it.

    The fast suite takes each file of `conf/mechanism` on the Transformer and on one other kind,
    and each variant (`wait_k-words`) on one kind; the kinds take turns.
    """
    found = []
    for number, name in enumerate(names):
        first, *others = possible = kinds(MECHANISMS[name])
        fast = {first, *others[number % len(others) :][:1]} if others else {first}
        if "-" in name:
            fast = {possible[number % len(possible)]}
        for kind in possible:
            marks = [] if kind in fast else [pytest.mark.slow]
            found.append(pytest.param(name, kind, marks=marks))
    return found


def kinds(chosen: dict[str, Any]) -> list[str]:
    """The kinds of model that take a mechanism."""
    return [kind for kind in SIZES if takes(kind, chosen)]


def takes(kind: str, chosen: dict[str, Any]) -> bool:
    """Whether a kind of model is defined for a mechanism; re-encoding is for clocks that stream."""
    if chosen["schedule"] == "hidden_markov" and kind not in ("transformer", BY_WORD):
        return False
    if kind == BY_WORD:
        return chosen.get("source_unit", "word") == "word"  # an offline mechanism has no units
    if kind == REENCODING:
        return chosen["schedule"] in ("wait_k", "multi_path") and chosen["span"] != "window"
    return kind != GUIDED or averages(chosen)


def averages(chosen: dict[str, Any]) -> bool:
    """Whether averages of what was read are defined for it."""
    dampens = chosen["span"] == "predicted_window" or chosen.get("gaussian")
    several = chosen["schedule"] == "hidden_markov"
    return not (dampens or several) and chosen.get("score") not in ("additive", "concat")
