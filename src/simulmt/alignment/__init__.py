"""Word alignments: their files, an aligner, and the measures that compare them with a model."""
