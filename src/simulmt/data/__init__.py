"""Text to batches: corpora, subwords, batches of similar lengths, and the manifest."""
