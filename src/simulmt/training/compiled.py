"""Training steps through `torch.compile`; nothing else is compiled."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from simulmt.errors import UserError
from simulmt.models.model import Model

_METHODS = ("encode", "decode")


def compiled_model(model: Model) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which the model encodes and decodes with compiled code.

    The sizes of a batch are dynamic, so that batches of other lengths are not compiled again. Torch
    warns of a part that it cannot compile, and runs it as it is.
    """
    torch._dynamo.config.suppress_errors = True
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


def check_compiler(accelerator: str) -> None:
    """Compile a tiny function, to find out whether training steps can be compiled.

    Args:
        accelerator: `cpu`, `gpu` or `auto`, which is a GPU if there is one.

    Raises:
        UserError: there is no compiler, or the headers of Python are missing.
    """
    device = "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"
    try:
        with torch._dynamo.config.patch(suppress_errors=False):
            torch.compile(lambda x: 2 * x + 1)(torch.ones(8, device=device))
    except (RuntimeError, ImportError, OSError) as error:
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise UserError(
            f"trainer.compile=true, but torch.compile fails ({why[:160]}): install a C++ compiler "
            "and the Python headers, or set trainer.compile=false"
        ) from None
