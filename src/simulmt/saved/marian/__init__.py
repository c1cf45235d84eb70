"""Models in the format of Marian, as of OPUS-MT, in and out.

`config` checks that a model has the parts of simulmt's Transformer, `weights` maps the names of the
parameters, `folder` reads a folder, and `export` writes one. Nothing in a folder is executed.
"""
