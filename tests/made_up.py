"""Made-up run directories, with what the reports read."""

from __future__ import annotations

import json
import random
from pathlib import Path

import yaml

from simulmt.decoding.instance import Instance, write_instances
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.scoring.score import score, write_scores

ROOT = Path(__file__).parents[1]


def latencies(dal: float | None) -> dict:
    names = ("AP", "AL", "AL_ref", "LAAL", "DAL", "CW")
    values = dict.fromkeys(names) if dal is None else dict.fromkeys(names, dal / 2) | {"DAL": dal}
    return values | {"signature": {name: f"{name}|v:0" for name in names}}


def make_run(folder: Path, mechanism: str, options: dict, bleu: float, dal: float | None) -> Path:
    """A run directory with what `report` reads; `options` are those of the command line."""
    config: dict = {"lambda": 0.0, "lambda_var": 0.0, "seed": 1}
    config["objective"] = {"latency_weight": "${lambda}", "variance_weight": "${lambda_var}"}
    config["data"] = {"name": "verbfinal", "seed": 1}
    group = (ROOT / "conf" / "mechanism" / f"{mechanism}.yaml").read_text(encoding="utf-8")
    config["mechanism"] = yaml.safe_load(group)
    config["model"] = {"name": "transformer", "dim": 128}
    for name, value in options.items():
        place, _, key = name.rpartition(".")
        (config.setdefault(place, {}) if place else config)[key] = value
    quality = {"BLEU": bleu, "chrF": bleu / 2, "signature": "tok:13a", "chrF_signature": "nc:6"}
    sub = None if dal is None else 1.5 * dal
    scores = {"quality": quality, "latency": {"word": latencies(dal), "subword": latencies(sub)}}
    scores["conventions"] = {
        name: {
            "unit": convention.unit,
            **dict.fromkeys(convention.figures, None if dal is None else dal / 4),
            "BLEU": bleu + 1,
            "signature": {figure: f"{figure}|{name}" for figure in convention.figures},
        }
        for name, convention in CONVENTIONS.items()
    }
    scores |= {"oracle": {"word": latencies(3.8)}, "sentences": 10, "empty": 0}
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "test_scores.json").write_text(json.dumps(scores), encoding="utf-8")
    return folder


def record_training(run: Path, parameters: int, speed: float) -> None:
    record = {"parameters": parameters, "tokens_per_second": speed}
    (run / "training.json").write_text(json.dumps(record))


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
    found = []
    for i, reference in enumerate(references):
        text = " ".join(reference)
        said = [w if wrong.random() >= mistakes else wrong.choice(words) for w in reference]
        delays = tuple(min(j + 1 + slow, len(said)) for j in range(len(said)))
        found.append(Instance(i, text.upper(), text, " ".join(said), delays))
    return found


def make_decoded_run(
    folder: Path, mechanism: str, options: dict, instances: list[Instance]
) -> Path:
    """A run directory whose scores are those of its `instances.log`."""
    make_run(folder, mechanism, options, 0, 1)
    write_scores(folder / "test_scores.json", score(instances))
    write_instances(folder / "instances.log", instances)
    return folder
