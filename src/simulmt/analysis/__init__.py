"""Figures and terminal views made from what decoding wrote down."""
