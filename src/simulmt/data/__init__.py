"""From text to batches: corpora, subwords, buckets, manifest."""
