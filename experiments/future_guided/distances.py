"""How far the states of encoders are from those of a teacher, on the teacher's test set.

python experiments/future_guided/distances.py TEACHER RUN ... --output FILE.csv

Each is a run or a `.ckpt` file, with the same subwords. The distance is the mean over the source
subwords of the squared Euclidean distance, as in the loss of `teacher=pretrained`, without dropout.
The row `unrelated` compares the teacher's states of each subword with those of a random one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from simulmt.data.batches import ordered_batches
from simulmt.data.encoded import EncodedSplit
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.system.disk import write_rows

TOKENS = 4000


@torch.inference_mode()
def states(trained: Trained, encoded: EncodedSplit) -> Tensor:
    """Return the states of all source subwords, (subwords, D)."""
    model, found = trained.build(), list[Tensor]()
    for rows in ordered_batches(encoded.lengths, TOKENS):
        batch = encoded.batch(rows)
        found.append(model.encode(batch.source, batch.source_mask).states[batch.source_mask])
    return torch.cat(found)


def main() -> None:
    """Compare the encoders that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("teacher", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    teacher = checkpoint.load(given.teacher)
    encoded = EncodedSplit.encode(teacher.own_split("test", None), teacher.subwords)
    taught = states(teacher, encoded)
    order = torch.randperm(len(taught), generator=torch.Generator().manual_seed(1))
    found = {"unrelated": taught[order]}
    found |= {
        run.name.removesuffix(".ckpt"): states(checkpoint.load(run), encoded) for run in given.runs
    }
    rows = [
        {"encoder": name, "distance": (own - taught).square().sum(1).mean().item()}
        for name, own in found.items()
    ]
    print(write_rows(rows, given.output))


if __name__ == "__main__":
    main()
