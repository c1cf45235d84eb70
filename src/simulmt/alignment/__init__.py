"""Which word translates which: aligners' files, the aligner, and what is measured with links."""
