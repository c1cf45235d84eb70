"""Decoding of whole sentences against transformers' `generate` and CTranslate2, at OPUS-MT's size.

    python benchmarks/generation.py [--repeats 7]

The same random weights on all sides, as time per subword written, on one CPU thread: greedily in a
batch of 32 and of one, with a beam of 4, and with weights of 8 bits. Sources have 25 subwords, and
every sentence ends at 30. The subwords are compared first: in float32 all sides must write the
same.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

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
CTRANSLATE2, AGAINST_IT = "CTranslate2", 1.5
Decoder: TypeAlias = Callable[[torch.Tensor, int], list[list[int]]]
"""Returns what a contestant writes for some sources with a beam."""


def limit(read: torch.Tensor) -> torch.Tensor:
    return torch.full_like(read, WRITTEN)


def ours(network: Model, source: torch.Tensor, beam: int = 1) -> list[list[int]]:
    mask = torch.ones_like(source, dtype=torch.bool)
    network.length_limit = limit
    how = greedy if beam == 1 else partial(beam_search, search=Search(beam, 1.0))
    found = how(network, source, mask)
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


def ctranslate2(network: Model, weights: str) -> Decoder:
    """The same weights in CTranslate2, as float32 or int8."""
    import ctranslate2  # noqa: PLC0415 - optional
    from ctranslate2.converters.transformers import BartLoader  # noqa: PLC0415

    peer, special = marian(network), network.vocabulary  # the loader changes a model
    peer.config.normalize_before = peer.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(peer)
    names = [str(piece) for piece in range(special.size)]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.unk_token, spec.config.eos_token = names[special.unk], names[special.eos]
    spec.config.bos_token = spec.config.decoder_start_token = names[special.bos]
    spec.validate()
    spec.optimize(quantization=weights)
    with TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(folder, compute_type=weights, intra_threads=1)

    def decode(source: torch.Tensor, beam: int) -> list[list[int]]:
        rows = [[*map(str, row)] for row in source.tolist()]
        found = translator.translate_batch(rows, beam_size=beam, max_decoding_length=WRITTEN)
        return [[*map(int, one.hypotheses[0])] for one in found]

    return decode


def contestants(network: Model) -> dict[str, Decoder]:
    """All that can run here, by name."""
    rounded, peer = opus_mt(laid_out=False), partial(theirs, marian(network))
    found: dict[str, Decoder] = {"float32": partial(ours, network), MARIAN: peer}
    if rounds(rounded):
        found["int8"] = partial(ours, rounded)
    if importlib.util.find_spec("ctranslate2"):
        for weights in ("float32", "int8"):
            found[f"{CTRANSLATE2}, {weights}"] = ctranslate2(network, weights)
    return found


def measure(repeats: int) -> list[Result]:
    one_thread()
    if not HAS_MARIAN:
        print(WITHOUT_MARIAN)
        return []
    network, results = opus_mt(), list[Result]()
    decoders = contestants(network)
    for batch, beam, most, most_rounded in CELLS:
        source = torch.randint(4, network.vocabulary.size, (batch, READ))
        source[:, -1] = network.vocabulary.eos
        with torch.inference_mode():
            texts = {name: decode(source, beam) for name, decode in decoders.items()}
            turns = {name: partial(decode, source, beam) for name, decode in decoders.items()}
            times = in_turns(turns, repeats, warm_up=1)
        for weights, target in (("float32", most), ("int8", most_rounded)):
            for rival, limit in ((MARIAN, target), (f"{CTRANSLATE2}, {weights}", AGAINST_IT)):
                what = f"{weights}, batches of {batch}, beam {beam}: time of {rival}"
                measured = weights in times and rival in times
                if measured and weights == "float32":
                    differ = sum(map(list.__ne__, texts[weights], texts[rival]))
                    what += f"; {differ} of {batch} sentences differ"
                found = ratios(times[weights], times[rival]) if measured else [math.nan]
                results.append(summed_up("generation", what, found, most=limit))
    return results


if __name__ == "__main__":
    alone(measure, __doc__)
