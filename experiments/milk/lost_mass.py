"""Measures the mass of alignments that runs past the end of the source, in trained models.

python experiments/milk/lost_mass.py RUN [RUN ...] --to FILE.csv

Each model is given the references of its test set, with noise and dropout as in its training, and
without them.
A row has the mean lost mass of a target token, 1 minus the sum of its expected alignment (eq. 8 of
Raffel et al. 2017), and the same of the last tenth of each sentence.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from simulmt.data.batches import ordered_batches
from simulmt.data.encoded import EncodedSplit
from simulmt.saved import checkpoint
from simulmt.system.console import say, watch
from simulmt.system.disk import write_rows


@torch.inference_mode()
def lost_mass(run: Path, noise: bool) -> dict[str, object]:
    """Return the row of a run."""
    trained = checkpoint.load(run)
    model, split = trained.build().train(noise), trained.own_split("test", None)
    torch.manual_seed(1)
    encoded, total, late = EncodedSplit.encode(split, trained.subwords), [], []
    for rows in watch(ordered_batches(encoded.lengths, 4 * trained.setup.batch_tokens), run.name):
        batch = encoded.batch(rows)
        source = model.encode(batch.source, batch.source_mask)
        (alpha,) = model.decode(source, batch.target_input).alphas
        lost = 1 - alpha.sum(-1).mean(1)  # (B, T), the mean of the heads
        lengths = batch.target_mask.sum(1, keepdim=True)
        last = torch.arange(lost.shape[1]) >= 0.9 * lengths
        total.append(lost[batch.target_mask])
        late.append(lost[batch.target_mask & last])
    means = {"lost": torch.cat(total).mean().item(), "lost_late": torch.cat(late).mean().item()}
    kept, weight = trained.setup.mechanism["mass_preservation"], trained.setup.weights.get("lambda")
    own = {"run": run.name, "mass_preservation": kept, "lambda": weight or 0}
    return {**own, "noise": noise, **means}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE.csv")
    chosen = parser.parse_args()
    found = [lost_mass(run, noise) for run in chosen.runs for noise in (True, False)]
    for row in found:
        say(", ".join(f"{name} {value}" for name, value in row.items()))
    write_rows(found, chosen.to)
