"""Checks shapes and types in the science's functions and dataclasses while the tests run.

`jaxtyping` decorates what is imported from here on with `checker`. It does not check the fields of
named tuples. The checks cost time at every call, so they are an option: `CHECK_SHAPES=1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping
from beartype import BeartypeConf, beartype

CHECKED = (
    "simulmt.alignment",
    "simulmt.analysis",
    "simulmt.attention",
    "simulmt.data.batches",
    "simulmt.data.encoded",
    "simulmt.data.lines",
    "simulmt.data.manifest",
    "simulmt.data.subwords",
    "simulmt.data.text",
    "simulmt.data.verbfinal",
    "simulmt.data.verbfinal_grammar",
    "simulmt.data.verbfinal_lexicon",
    "simulmt.decoding",
    "simulmt.latency",
    "simulmt.laws",
    "simulmt.live",
    "simulmt.models",
    "simulmt.objective",
    "simulmt.ops.lstm",
    "simulmt.ops.reference",
    "simulmt.saved",
    "simulmt.scoring",
)
"""Left out, since the decorator breaks them: `simulmt.data.corpus` (a mapping is checked by a look
into it, which would read a split), the other modules of `simulmt.ops` (numba, Triton and
torch.library take kernels as bare functions), `simulmt.training` (checkpoints pickle the learning
rate's method), `simulmt.programs` (omegaconf's DictConfig is a typing.MutableMapping, of which
beartype warns) and `simulmt.files.run_directory` (a `type[T]` there may be `dict[str, Any]`)."""

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float


def install() -> None:
    """Check all that is imported from now on."""
    jaxtyping.install_import_hook(CHECKED, "shapes.checker")


@contextmanager
def unchecked() -> Iterator[None]:
    """Without the checks, which make a training three times and the laws ten times as long."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
