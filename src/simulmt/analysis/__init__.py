"""Figures and terminal views made from what decoding wrote down."""

import logging

logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it reports each font that it finds
