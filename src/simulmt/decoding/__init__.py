"""Decoding: greedy batches, beam search, streaming, and what they write down."""
