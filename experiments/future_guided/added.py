"""How much the average embedding adds to the contexts of a decoder, layer by layer.

python experiments/future_guided/added.py BASE RUN ... --output FILE.csv

RUN has `model.average_embedding=true`. A row has, for each layer, the mean length of what the layer
of averages adds to a context, divided by the mean length of the context: on the references of the
test set, without dropout. `start` stands for the first RUN before training: the parameters of
BASE, and a random projection of the averages.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from simulmt.attention import Attended
from simulmt.data.batches import ordered_batches
from simulmt.data.encoded import EncodedSplit
from simulmt.models.average_embedding import GuidedAttention
from simulmt.models.model import Model
from simulmt.parts.builders import build_mechanism, build_model
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.system.disk import replacing

TOKENS = 4000


@torch.inference_mode()
def added(model: Model, encoded: EncodedSplit) -> list[float]:
    """Return the share of each layer."""
    plain: list[list[Tensor]] = []
    guided: list[list[Tensor]] = []
    for layer in (each for each in model.modules() if isinstance(each, GuidedAttention)):
        for contexts, module in ((plain, layer.attention), (guided, layer)):
            contexts.append([])
            module.register_forward_hook(keep(contexts[-1]))
    for rows in ordered_batches(encoded.lengths, TOKENS):
        batch = encoded.batch(rows)
        model(batch.source, batch.source_mask, batch.target_input)
        for own in (*plain, *guided):
            own[-1] = own[-1][batch.target_mask]
    pairs = [(torch.cat(one), torch.cat(other)) for one, other in zip(plain, guided, strict=True)]
    return [((b - a).norm(dim=-1).mean() / a.norm(dim=-1).mean()).item() for a, b in pairs]


def keep(contexts: list[Tensor]) -> Callable[[object, object, Attended], None]:
    """Return a hook that keeps the contexts of a module."""

    def hook(_module: object, _inputs: object, attended: Attended) -> None:
        contexts.append(attended.context)

    return hook


def at_start(trained: Trained, base: Trained) -> Model:
    """Return the model before training."""
    torch.manual_seed(1)
    mechanism = build_mechanism(trained.setup.mechanism)
    model = build_model(trained.setup.model, mechanism, trained.subwords.vocabulary)
    checkpoint.load_matching(model, base)
    return model.eval()


def main() -> None:
    """Compare the runs that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    trained = {run.stem: checkpoint.load(run) for run in given.runs}
    first = next(iter(trained.values()))
    encoded = EncodedSplit.encode(first.own_split("test", None), first.subwords)
    models = {"start": at_start(first, checkpoint.load(given.base))}
    models |= {name: each.build() for name, each in trained.items()}
    with replacing(given.output) as unfinished, unfinished.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for number, (name, model) in enumerate(models.items()):
            shares = added(model, encoded)
            if not number:
                table.writerow(("model", *(f"layer_{n}" for n in range(1, len(shares) + 1))))
            table.writerow((name, *shares))
            print(name, *(f"{share:.2f}" for share in shares))


if __name__ == "__main__":
    main()
