"""Decoding of whole sentences against transformers' `generate`, by a model of OPUS-MT's size.

    python benchmarks/generation.py [--repeats 7]

The same random weights on both sides, as time per subword written, on one CPU thread: greedily in a
batch of 32 and of one, with a beam of 4, and with weights of 8 bits. Sources have 25 subwords, and
every sentence ends at 30. The subwords are compared first: both sides must write the same.
"""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from frame import Result, alone, in_turns, one_thread, ratios, summed_up
from peers import HAS_MARIAN, MARIAN, WITHOUT_MARIAN
from pretrained import composed, opus_mt, rounds

from simulmt.decoding.beam import beam_search
from simulmt.decoding.greedy import greedy
from simulmt.decoding.search import Search
from simulmt.models.model import Model
from simulmt.saved.marian.weights import to_marian

READ, WRITTEN = 25, 30
# the batch, the beam, and the targets in float32 and with weights of 8 bits
CELLS = ((32, 1, 0.70, 0.30), (1, 1, 0.90, 0.30), (32, 4, 0.60, None), (1, 4, 0.60, None))


def endless() -> Model:
    """A model that writes no special token before its length limit."""
    torch.manual_seed(1)
    network, bias = opus_mt(), "output_bias"
    special = network.vocabulary
    with torch.no_grad():
        network.get_parameter(bias)[[special.pad, special.bos, special.eos]] = -1e4
    return network


def limit(read: torch.Tensor) -> torch.Tensor:
    return torch.full_like(read, WRITTEN)


def ours(network: Model, source: torch.Tensor, beam: int = 1) -> list[list[int]]:
    mask = torch.ones_like(source, dtype=torch.bool)
    if beam == 1:
        found = greedy(network, source, mask, limit)
    else:
        with patch("simulmt.decoding.beam.length_limit", limit):
            found = beam_search(network, source, mask, Search(beam, 1.0))
    return [one.tokens for one in found]


def theirs(peer: Any, source: torch.Tensor, beam: int = 1) -> list[list[int]]:
    found = peer.generate(source, num_beams=beam, do_sample=False, max_new_tokens=WRITTEN)
    return [row[1 : WRITTEN + 1] for row in found.tolist()]  # without what the decoder starts with


def marian(network: Model) -> Any:
    """The same weights in transformers."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import MarianConfig, MarianMTModel  # noqa: PLC0415 - seconds, and optional

    options = composed("train", "model=opus_mt", "mechanism=soft")["model"]
    special = network.vocabulary
    config = MarianConfig(
        vocab_size=special.size,
        d_model=options["dim"],
        **{f"{side}_layers": options[f"{side}_layers"] for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": options["ffn"] for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": options["heads"] for side in ("encoder", "decoder")},
        activation_function=options["activation"],
        scale_embedding=True,
        pad_token_id=special.pad,
        eos_token_id=special.eos,
        decoder_start_token_id=special.bos,
        forced_eos_token_id=None,
    )
    peer: Any = MarianMTModel(config)
    peer.load_state_dict(to_marian(network.state_dict(), options), strict=False)
    peer.tie_weights()
    peer.set_attn_implementation("sdpa")
    return peer.eval()


def measure(repeats: int) -> list[Result]:
    one_thread()
    if not HAS_MARIAN:
        print(WITHOUT_MARIAN)
        return []
    network, rounded = endless(), endless()
    can = rounds(rounded)
    peer, results = marian(network), list[Result]()
    for batch, beam, most, most_rounded in CELLS:
        source = torch.randint(4, network.vocabulary.size, (batch, READ))
        source[:, -1] = network.vocabulary.eos
        with torch.inference_mode():
            differ = sum(map(list.__ne__, ours(network, source, beam), theirs(peer, source, beam)))
            contestants = {
                "float32": partial(ours, network, source, beam),
                **({"int8": partial(ours, rounded, source, beam)} if can else {}),
                MARIAN: partial(theirs, peer, source, beam),
            }
            times = in_turns(contestants, repeats, warm_up=1)
        for name, target in (("float32", most), ("int8", most_rounded)):
            what = f"{name}, batches of {batch}, beam {beam}: time of {MARIAN}"
            if name == "float32":
                what += f"; {differ} of {batch} sentences differ"
            found = ratios(times[name], times[MARIAN]) if name in times else [math.nan]
            results.append(summed_up("generation", what, found, most=target))
    return results


if __name__ == "__main__":
    alone(measure, __doc__)
