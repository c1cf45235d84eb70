"""Rows of a matrix to *tiles* and back, in compiled code.

A tile holds the same row of 16 sentences (or heads) side by side, flat: element `16 j + lane` is
position `j` of one of them. To read or write a tile is to transpose it. Left to itself, the
compiler transposes element by element; `_transpose_block` does 16 x 16 elements in registers.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from simulmt.ops.compiled import Array, compiled
from simulmt.ops.tiles import LANES


@compiled
def rows_of(tile: int, rows: int) -> slice:
    """The rows of a tile. The last tile overlaps the one before, to the same values."""
    first = max(0, min(tile * LANES, rows - LANES))
    return slice(first, first + LANES)


@compiled
def load(x: Array, tile: Array) -> None:
    """Fill lane r of the tile with row r of x, for up to 16 rows."""
    _transpose(x, tile.reshape(-1, LANES))


@compiled
def store(tile: Array, x: Array) -> None:
    """Invert `load`."""
    _transpose(tile.reshape(-1, LANES), x)


@compiled
def _transpose(source: Array, target: Array) -> None:
    """target[j, i] = source[i, j], as far as both reach."""
    rows, columns = min(source.shape[0], target.shape[1]), min(source.shape[1], target.shape[0])
    if rows >= LANES and columns >= LANES:
        for i in range(0, rows, LANES):  # the last block overlaps the one before unless 16 divides
            for j in range(0, columns, LANES):
                _transpose_block(source, min(i, rows - LANES), min(j, columns - LANES), target)
    else:
        for i in range(rows):
            for j in range(columns):
                target[j, i] = source[i, j]


@intrinsic
def _transpose_block(typing: Any, source: Any, i: Any, j: Any, target: Any) -> Any:
    """target[j + c, i + r] = source[i + r, j + c] for 16 x 16 elements, in registers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = context.get_data_type(source.dtype)
        vector, align = ir.VectorType(element, LANES), context.get_abi_sizeof(element)

        def rows_from(kind: Any, value: Any, i: Any, j: Any) -> Iterator[Any]:
            """Pointers to the elements [i, j:], [i + 1, j:], ... of an array."""
            array = cgutils.create_struct_proxy(kind)(context, builder, value=value)
            for r in range(LANES):
                at = [builder.add(i, ir.Constant(i.type, r)), j]
                pointer = cgutils.get_item_pointer(context, builder, kind, array, at)
                yield builder.bitcast(pointer, vector.as_pointer())

        x, i, j, y = args
        rows = [builder.load(pointer, align=align) for pointer in rows_from(source, x, i, j)]
        _swap(builder, rows)
        for row, pointer in zip(rows, rows_from(target, y, j, i), strict=True):
            builder.store(row, pointer, align=align)
        return context.get_dummy_value()

    return types.void(source, types.intp, types.intp, target), codegen


def _swap(builder: Any, rows: list[Any]) -> None:
    """Swap the off-diagonal squares of 16 vectors: 1 x 1, then 2 x 2, 4 x 4, 8 x 8."""
    mask = ir.VectorType(ir.IntType(32), LANES)
    for width in (1, 2, 4, 8):
        low = [c if not c & width else LANES + c - width for c in range(LANES)]
        high = [c + width if not c & width else LANES + c for c in range(LANES)]
        for r in (r for r in range(LANES) if not r & width):
            pair = rows[r], rows[r + width]
            rows[r] = builder.shuffle_vector(*pair, ir.Constant(mask, low))
            rows[r + width] = builder.shuffle_vector(*pair, ir.Constant(mask, high))
