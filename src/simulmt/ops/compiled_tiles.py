"""Rows of a tensor as tiles, in compiled code: 16 of them side by side, and back again.

A *tile* holds the same row of 16 sentences (or heads), flat, so that element `k = 16 j + lane` is
position `j` of one of them. Reading and writing it means transposing blocks of 16 x 16 elements.
The last tile of a tensor is moved back to end at the last row; the rows that two tiles then share
are computed twice, to the same values.
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


def _transpose_block(
    typing: Any, src: Any, at: Any, step: Any, dst: Any, to: Any, jump: Any
) -> Any:
    """dst[to + jump * c + r] = src[at + step * r + c] for 16 x 16 elements, in registers."""

    def address(builder: Any, array: Any, start: Any, stride: Any, row: int, vector: Any) -> Any:
        offset = builder.add(start, builder.mul(stride, ir.Constant(start.type, row)))
        return builder.bitcast(builder.gep(array, [offset]), vector.as_pointer())

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = cgutils.create_struct_proxy(src)(context, builder, value=args[0]).data
        target = cgutils.create_struct_proxy(dst)(context, builder, value=args[3]).data
        element = context.get_data_type(src.dtype)
        vector, align = ir.VectorType(element, LANES), context.get_abi_sizeof(element)
        rows = []
        for r in range(LANES):
            rows.append(builder.load(address(builder, source, args[1], args[2], r, vector)))
            rows[-1].align = align
        mask_type = ir.VectorType(ir.IntType(32), LANES)
        width = 1
        while width < LANES:  # swap the off-diagonal squares: 1 x 1, then 2 x 2, 4 x 4, 8 x 8
            low = [c if not c & width else LANES + c - width for c in range(LANES)]
            high = [c + width if not c & width else LANES + c for c in range(LANES)]
            for r in (r for r in range(LANES) if not r & width):
                pair = rows[r], rows[r + width]
                rows[r] = builder.shuffle_vector(*pair, ir.Constant(mask_type, low))
                rows[r + width] = builder.shuffle_vector(*pair, ir.Constant(mask_type, high))
            width *= 2
        for r in range(LANES):
            store = builder.store(rows[r], address(builder, target, args[4], args[5], r, vector))
            store.align = align
        return context.get_dummy_value()

    index = types.intp
    return types.void(src, index, index, dst, index, index), codegen


_transpose: Any = intrinsic(_transpose_block)


@compiled
def load(x: Array, at: int, stride: int, lanes: int, tile: Array, S: int) -> None:
    """Row r of the tile is x[at + r * stride :][:S]."""
    if lanes == LANES and S >= LANES:
        for j in range(0, S - LANES, LANES):
            _transpose(x, at + j, stride, tile, j * LANES, LANES)
        last = S - LANES  # overlaps the block before it when 16 does not divide S
        _transpose(x, at + last, stride, tile, last * LANES, LANES)
    else:
        for r in range(lanes):
            for j in range(S):
                tile[j * LANES + r] = x[at + r * stride + j]


@compiled
def store(tile: Array, x: Array, at: int, stride: int, lanes: int, S: int) -> None:
    """The inverse of `load`."""
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
    """Where a tile begins: the last one is moved back to end at the last row."""
    return max(0, min(tile * LANES, rows - LANES))
