"""Formulas of the docstrings, written as for Sphinx, become MathML in the site."""

from __future__ import annotations

import re

from griffe import Extension, Object
from latex2mathml.converter import convert

INLINE = re.compile(r":math:`([^`]+)`")
BLOCK = re.compile(r"^\.\. math::(.*(?:\n+ +.*)*)", re.MULTILINE)


class Formulas(Extension):  # type: ignore[misc]  # the environment of the tests lacks griffe
    """Converts `.. math::` and `:math:`."""

    def on_instance(self, *, obj: Object, **_: object) -> None:
        """Convert the docstring of a module, class or function."""
        if obj.docstring:
            text = INLINE.sub(r"<span>\g<0></span>", obj.docstring.value)  # begins no block
            text = INLINE.sub(lambda found: convert(found[1]), text)
            obj.docstring.value = BLOCK.sub(lambda found: convert(found[1], display="block"), text)
