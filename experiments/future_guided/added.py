"""How much the average embedding adds to the contexts of a decoder, layer by layer.

python experiments/future_guided/added.py BASE RUN ... --output FILE.csv

RUN has `model.average_embedding=true`. A row has, for each layer, the mean length of what the layer
of averages adds to a context, divided by the mean length of the context: on the references of the
test set, without dropout. `start` stands for the first RUN before training: the parameters of
BASE, and a random projection of the averages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

from simulmt.attention import Attended
from simulmt.data.batches import ordered_batches
from simulmt.data.encoded import EncodedSplit
from simulmt.models.average_embedding import GuidedAttention
from simulmt.models.model import Model
from simulmt.parts.builders import build_mechanism, build_model
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.system.disk import write_rows

TOKENS = 4000


@torch.inference_mode()
def added(model: Model, encoded: EncodedSplit) -> dict[str, float]:
    """Return the share of each layer."""
    layers = [module for module in model.modules() if isinstance(module, GuidedAttention)]
    contexts: dict[nn.Module, Tensor] = {}  # of the newest batch

    def keep(module: nn.Module, _inputs: object, attended: Attended) -> None:
        contexts[module] = attended.context

    for layer in layers:
        layer.register_forward_hook(keep)
        layer.attention.register_forward_hook(keep)
    lengths = torch.zeros(len(layers), 2, dtype=torch.float64)
    for rows in ordered_batches(encoded.lengths, TOKENS):
        batch = encoded.batch(rows)
        model(batch.source, batch.source_mask, batch.target_input)
        for sums, layer in zip(lengths, layers, strict=True):
            plain = contexts[layer.attention]
            for n, context in enumerate((contexts[layer] - plain, plain)):
                sums[n] += context[batch.target_mask].norm(dim=-1).sum()
    return {f"layer_{n}": (own / of).item() for n, (own, of) in enumerate(lengths, 1)}


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
    trained = {run.name.removesuffix(".ckpt"): checkpoint.load(run) for run in given.runs}
    first = next(iter(trained.values()))
    encoded = EncodedSplit.encode(first.own_split("test", None), first.subwords)
    models = {"start": at_start(first, checkpoint.load(given.base))}
    models |= {name: each.build() for name, each in trained.items()}
    rows = [{"model": name, **added(model, encoded)} for name, model in models.items()]
    print(write_rows(rows, given.output))


if __name__ == "__main__":
    main()
