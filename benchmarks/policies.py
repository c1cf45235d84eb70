"""Policies on a trained model: sentences per second in batches and live, and their equality.

    python benchmarks/policies.py RUN [--sentences 1000] [--live 100] [--only local_agreement ...]

Runs all policies of `conf/policy` that work with the model, with the options of their files, on its
test set and one thread. A batch has 4,000 source subwords. Live, each source word and each end of a
sentence is a read.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from frame import ROOT, one_thread
from rich.console import Console
from rich.table import Table

from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.decoding.instance import Instance
from simulmt.decoding.policies import OWN, POLICIES
from simulmt.decoding.search import GREEDY
from simulmt.errors import UserError
from simulmt.live.stopwatch import translate_timed
from simulmt.live.translator import Translator
from simulmt.parts.builders import build_policy
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.split_decoder import SplitDecoder

TOKENS = 4000
WORD_MS = 1000.0


def options(name: str) -> dict[str, Any]:
    text = (ROOT / "conf" / "policy" / f"{name}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def written(instances: list[Instance]) -> list[tuple[str, tuple[int, ...]]]:
    """Words and delays."""
    return [(one.prediction, one.delays) for one in instances]


def measure(trained: Trained, name: str, split: Split, live: int) -> tuple[str, ...]:
    """A row of the table."""
    translator = Translator.of(trained, "cpu", build_policy(options(name)))
    encoded = EncodedSplit.encode(split, trained.subwords)
    decoder = SplitDecoder(split, trained.subwords, TOKENS, GREEDY, translator.policy, encoded)
    started = time.perf_counter()
    batch = decoder(translator.model)
    in_batches = len(split) / (time.perf_counter() - started)
    first = Split([*islice(split.sources, live)], [*islice(split.targets, live)])
    started = time.perf_counter()
    stream, computing = translate_timed(translator, first, WORD_MS)
    alone = len(first) / (time.perf_counter() - started)
    pairs = zip(written(batch), written(stream), strict=False)
    differ = sum(one != other for one, other in pairs)
    return (
        name,
        f"{in_batches:.0f}",
        f"{alone:.1f}",
        f"{in_batches / alone:.1f}",
        f"{computing.median:.1f}",
        f"{computing.p95:.1f}",
        f"{differ} of {len(first)}",
        f"{np.mean([delay for one in batch for delay in one.delays]):.2f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--live", type=int, default=100, help="sentences that are streamed")
    parser.add_argument("--only", nargs="+", choices=[OWN, *POLICIES], default=[OWN, *POLICIES])
    given = parser.parse_args()
    one_thread()
    trained = checkpoint.load(given.run)
    whole = trained.own_split("test", None)
    count = min(given.sentences, len(whole))
    split = Split([*islice(whole.sources, count)], [*islice(whole.targets, count)])
    table = Table("policy", *("in batches\nsentences/s", "live\nsentences/s", "times"),
                  *("read, ms\nmedian", "read, ms\n95%", "differ", "mean delay"))  # fmt: skip
    for name in given.only:
        try:
            with torch.inference_mode():
                table.add_row(*measure(trained, name, split, given.live))
        except UserError as error:
            print(f"{name}: {error}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
