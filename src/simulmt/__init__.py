"""simulmt: train, compare and stream simultaneous translation models.

`simulmt.live.translator.Translator` translates live, `simulmt.scoring` decodes and scores text,
`simulmt.latency` has the latencies, `simulmt.ops` the expected alignments, `simulmt.attention` the
mechanisms and `simulmt.decoding.policies` the policies; docs/python.md shows how to use them.

Letters used for shapes everywhere: B sentences, T target steps, S source positions, D model
dimension, H heads, L decoder layers, V vocabulary. Masks are True for real tokens.
"""

__version__ = "0.1.0"
