"""Figures and terminal views made from what decoding wrote down."""

import logging

logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of the fonts that it finds
