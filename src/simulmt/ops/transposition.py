"""Rows of a matrix to *tiles* and back, in compiled code.

A tile holds the same row of 16 sentences (or heads) side by side, flat: element `16 j + lane` is
position `j` of one of them. To read or write a tile is to transpose it. Left to itself, the
compiler transposes element by element; `_transpose_block` does 16 x 16 elements in registers.
"""

# mypy: disable-error-code="no-untyped-call"
from collections.abc import Iterator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from simulmt.ops.compiled import Array, compiled
from simulmt.ops.tiles import LANES


def _transpose_block(typing: Any, x: Any, at: Any, step: Any, y: Any, to: Any, jump: Any) -> Any:
    """y[to + jump * c + r] = x[at + step * r + c] for 16 x 16 elements, in registers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = context.get_data_type(x.dtype)
        vector, align = ir.VectorType(element, LANES), context.get_abi_sizeof(element)

        def vectors(kind: Any, array: Any, start: Any, stride: Any) -> Iterator[Any]:
            """Pointers to 16 elements at the start, one stride further, two strides, ..."""
            data = cgutils.create_struct_proxy(kind)(context, builder, value=array).data
            for r in range(LANES):
                offset = builder.add(start, builder.mul(stride, ir.Constant(start.type, r)))
                yield builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())

        rows = [builder.load(pointer, align=align) for pointer in vectors(x, *args[:3])]
        _swap(builder, rows)
        for row, pointer in zip(rows, vectors(y, *args[3:]), strict=True):
            builder.store(row, pointer, align=align)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, y, types.intp, types.intp), codegen


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


_transpose: Any = intrinsic(_transpose_block)


@compiled
def first_row(tile: int, rows: int) -> int:
    """The first row of a tile. The last tile overlaps the one before, to the same values."""
    return max(0, min(tile * LANES, rows - LANES))


@compiled
def load(x: Array, row: int, at: int, size: int, tile: Array) -> None:
    """Fill lane r of the tile with x[row + r, at : at + size]."""
    lanes, stride = min(LANES, x.shape[0]), x.shape[1]
    if lanes == LANES and size >= LANES:
        for k in range(0, size, LANES):
            j = min(k, size - LANES)  # the last block overlaps the one before unless 16 divides
            _transpose(x, row * stride + at + j, stride, tile, j * LANES, LANES)
    else:
        for r in range(lanes):
            for j in range(size):
                tile[j * LANES + r] = x[row + r, at + j]


@compiled
def store(tile: Array, x: Array, row: int, at: int, size: int) -> None:
    """Invert `load`."""
    lanes, stride = min(LANES, x.shape[0]), x.shape[1]
    if lanes == LANES and size >= LANES:
        for k in range(0, size, LANES):
            j = min(k, size - LANES)
            _transpose(tile, j * LANES, LANES, x, row * stride + at + j, stride)
    else:
        for r in range(lanes):
            for j in range(size):
                x[row + r, at + j] = tile[j * LANES + r]
