"""Training steps through `torch.compile`; nothing else is compiled."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from simulmt.models.model import Model

_METHODS = ("encode", "decode")


def compiled_model(model: Model) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which the model encodes and decodes with compiled code.

    The sizes of a batch are dynamic, so that batches of other lengths are not compiled again.
    """
    methods = {name: torch.compile(getattr(model, name), dynamic=True) for name in _METHODS}

    @contextmanager
    def inside() -> Iterator[None]:
        vars(model).update(methods)
        try:
            yield
        finally:
            for name in methods:
                del vars(model)[name]

    return inside
