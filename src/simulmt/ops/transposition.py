"""Rows of a tensor to *tiles* and back, in compiled code.

A tile holds the same row of 16 sentences (or heads) side by side, flat: element `16 j + lane` is
position `j` of one of them. To read or write a tile is to transpose it. Left to itself, the
compiler transposes element by element; `_transpose_block` does 16 x 16 elements in registers.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from simulmt.ops.compiled import compiled
from simulmt.ops.tiles import LANES

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Shape: TypeAlias = tuple[int, int, int]


def _transpose_block(
    typing: Any, source: Any, at: Any, step: Any, target: Any, to: Any, jump: Any
) -> Any:
    """target[to + jump * c + r] = source[at + step * r + c] for 16 x 16 elements, in registers."""

    def pointer(builder: Any, array: Any, start: Any, stride: Any, row: int, vector: Any) -> Any:
        offset = builder.add(start, builder.mul(stride, ir.Constant(start.type, row)))
        return builder.bitcast(builder.gep(array, [offset]), vector.as_pointer())

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x = cgutils.create_struct_proxy(source)(context, builder, value=args[0]).data
        y = cgutils.create_struct_proxy(target)(context, builder, value=args[3]).data
        element = context.get_data_type(source.dtype)
        vector, align = ir.VectorType(element, LANES), context.get_abi_sizeof(element)
        rows = []
        for r in range(LANES):
            rows.append(builder.load(pointer(builder, x, args[1], args[2], r, vector)))
            rows[-1].align = align
        mask = ir.VectorType(ir.IntType(32), LANES)
        width = 1
        while width < LANES:  # swap the off-diagonal squares: 1 x 1, then 2 x 2, 4 x 4, 8 x 8
            low = [c if not c & width else LANES + c - width for c in range(LANES)]
            high = [c + width if not c & width else LANES + c for c in range(LANES)]
            for r in (r for r in range(LANES) if not r & width):
                pair = rows[r], rows[r + width]
                rows[r] = builder.shuffle_vector(*pair, ir.Constant(mask, low))
                rows[r + width] = builder.shuffle_vector(*pair, ir.Constant(mask, high))
            width *= 2
        for r in range(LANES):
            store = builder.store(rows[r], pointer(builder, y, args[4], args[5], r, vector))
            store.align = align
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, index, index, target, index, index), codegen


_transpose: Any = intrinsic(_transpose_block)


@compiled
def load(x: Array, at: int, stride: int, lanes: int, tile: Array, S: int) -> None:
    """Fill lane r of the tile with x[at + r * stride :][:S]."""
    if lanes == LANES and S >= LANES:
        for j in range(0, S - LANES, LANES):
            _transpose(x, at + j, stride, tile, j * LANES, LANES)
        last = S - LANES  # overlaps the block before unless 16 divides S
        _transpose(x, at + last, stride, tile, last * LANES, LANES)
    else:
        for r in range(lanes):
            for j in range(S):
                tile[j * LANES + r] = x[at + r * stride + j]


@compiled
def store(tile: Array, x: Array, at: int, stride: int, lanes: int, S: int) -> None:
    """Invert `load`."""
    if lanes == LANES and S >= LANES:
        for j in range(0, S - LANES, LANES):
            _transpose(tile, j * LANES, LANES, x, at + j, stride)
        last = S - LANES
        _transpose(tile, last * LANES, LANES, x, at + last, stride)
    else:
        for r in range(lanes):
            for j in range(S):
                x[at + r * stride + j] = tile[j * LANES + r]


@compiled
def first_row(tile: int, rows: int) -> int:
    """The first row of a tile. The last tile overlaps the one before, to the same values."""
    return max(0, min(tile * LANES, rows - LANES))


@compiled
def load_above(
    alpha: Array,
    initial: Array,
    row: int,
    t: int,
    shape: tuple[int, int, int],
    tile: Array,
    rows: int,
) -> None:
    """Load the rows of alpha before t, t + 1, ...; `initial` comes before the first row."""
    N, T, S = shape
    lanes, at = min(LANES, N), row * T * S + t * S
    if t > 0:
        load(alpha, at - S, T * S, lanes, tile, rows * S)
    else:
        load(initial, row * S, S, lanes, tile, S)
        load(alpha, at, T * S, lanes, tile[S * LANES :], (rows - 1) * S)
