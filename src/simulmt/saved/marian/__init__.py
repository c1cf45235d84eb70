"""Models in the format of Marian, as of OPUS-MT, in and out.

`config` says which models are of one kind with the Transformer here, `weights` how their parameters
correspond, and `folder` reads and writes a folder. Nothing in a folder is executed.
"""
