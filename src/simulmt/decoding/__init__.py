"""Decoding: batched simultaneous greedy search, streaming, and what they write down."""
