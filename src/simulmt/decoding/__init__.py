"""Decoding: greedy batches, beam search, streaming, and the records of decoded sentences."""
