"""Made-up run directories, with what the reports read."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import yaml

from simulmt.decoding.instance import Instance
from simulmt.files.instances import write_instances
from simulmt.files.run_directory import (
    CONFIG,
    EVALUATED,
    EVALUATION,
    INSTANCES,
    MANIFEST,
    SCORES,
    TRAINING,
    TRAITS,
    Training,
    Traits,
)
from simulmt.latency import METRICS
from simulmt.parts.builders import build_mechanism
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.scoring.score import score
from simulmt.scoring.scores import Decoding, Score, Scores
from simulmt.system.disk import read_record, write_json

ROOT = Path(__file__).parents[1]
OWN = Decoding("best", "test", beam=1)


def latencies(dal: float | None) -> dict[str, Score]:
    half = None if dal is None else dal / 2
    values = dict.fromkeys(METRICS, half) | {"DAL": dal}
    return {name: Score(value, f"{name}|v:0") for name, value in values.items()}


def make_scores(bleu: float, dal: float | None) -> Scores:
    """Half the DAL in all other latencies, 1.5 times that in subwords, a quarter in conventions."""
    quality = {"BLEU": Score(bleu, "BLEU|tok:13a"), "chrF": Score(bleu / 2, "chrF|nc:6")}
    sub = None if dal is None else 1.5 * dal
    figures = {"paper": {"word": quality | latencies(dal), "subword": quality | latencies(sub)}}
    quarter = None if dal is None else dal / 4
    for name, convention in CONVENTIONS.items():
        if name != "paper":
            own = {figure: Score(quarter, f"{figure}|{name}") for figure in convention.figures}
            own["BLEU"] = Score(bleu + 1, f"BLEU|{name}")
            figures[name] = {convention.units[0]: own}
    delays = {"word": {2: 10}, "subword": {3: 10}}
    return Scores(figures, delays, 10, 0, oracle={"word": latencies(3.8)}, decoding=OWN)


def make_run(folder: Path, mechanism: str, options: dict, bleu: float, dal: float | None) -> Path:
    """A run directory with what `report` reads; `options` are those of the command line."""
    config: dict = {"lambda": 0.0, "lambda_var": 0.0, "seed": 1}
    config["data"] = {"name": "verbfinal", "seed": 1}
    group = (ROOT / "conf" / "mechanism" / f"{mechanism}.yaml").read_text(encoding="utf-8")
    config["mechanism"] = {k: v for k, v in yaml.safe_load(group).items() if k != "defaults"}
    traits = build_mechanism(config["mechanism"])
    config["model"] = {"name": "transformer", "dim": 128}
    for name, value in options.items():
        place, _, key = name.rpartition(".")
        (config.setdefault(place, {}) if place else config)[key] = value
    dials = {name: config["mechanism"].get(name, usual) for name, usual in traits.dials.items()}
    data = config["data"]["name"]
    digests = {"source_sha256": data, "target_sha256": data}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG, config)
    write_json(folder / MANIFEST, {"splits": dict.fromkeys(("train", "test"), digests)})
    write_json(folder / TRAITS, Traits(traits.learned, traits.offline, dials))
    write_json(folder / SCORES, make_scores(bleu, dal))
    record_training(folder, 1000, None)
    return folder


def evaluate_run(run: Path, name: str, scores: Scores, **decoding) -> Path:
    """A further decoding of a run, otherwise than its own."""
    folder = run / EVALUATION / name
    folder.mkdir(parents=True)
    own = read_record(run / SCORES, Scores).decoding
    write_json(folder / EVALUATED, replace(scores, decoding=replace(own, **decoding)))
    return folder


def record_training(run: Path, parameters: int, speed: float | None, **fields) -> None:
    usual = {"updates": 20, "resumed_at": 0, "seconds": 1.0}
    usual |= {"threads": 1, "processes": 1, "device": "cpu"}
    record = Training(parameters=parameters, tokens_per_second=speed, **usual | fields)
    write_json(run / TRAINING, record)


def make_instances(
    mistakes: float, slow: int = 0, sentences: int = 60, seed: int = 1
) -> list[Instance]:
    """Sentences of digits' names, decoded with this share of wrong words, `slow` words late."""
    draw = random.Random(seed)
    words = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
    references = [
        [draw.choice(words) for _ in range(draw.randint(5, 12))] for _ in range(sentences)
    ]
    wrong = random.Random(f"{seed} {mistakes}")
    instances = []
    for i, reference in enumerate(references):
        text = " ".join(reference)
        said = [w if wrong.random() >= mistakes else wrong.choice(words) for w in reference]
        delays = tuple(min(j + 1 + slow, len(said)) for j in range(len(said)))
        instances.append(Instance(i, text.upper(), text, " ".join(said), delays))
    return instances


def make_decoded_run(
    folder: Path, mechanism: str, options: dict, instances: list[Instance]
) -> Path:
    """A run directory whose scores are those of its `instances.log`."""
    make_run(folder, mechanism, options, 0, 1)
    write_json(folder / SCORES, score(instances, None, OWN))
    write_instances(folder / INSTANCES, instances)
    return folder
