"""Sixteen numbers side by side in compiled code: a vector register, or as many as it takes.

    x = get(tile, k)         # tile[k : k + 16]
    y = 1 - x * x            # with numbers or other lanes, in all sixteen at once
    put(tile, k, y)

A recurrence over the positions of a tile, written with these, keeps what it carries in registers.
Left to itself the compiler has it wait, at every position, for what it has just written to memory.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic, models, overload, register_model

from simulmt.ops.tiles import LANES

CONTRACT = ("contract",)  # a * b + c may round once instead of twice


class Lanes(types.Type):
    """The type of sixteen numbers, to the compiler."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Any) -> None:
        super().__init__(manager, lanes, _vector(lanes.dtype))


def _vector(dtype: Any) -> Any:
    return ir.VectorType(ir.FloatType() if dtype == types.float32 else ir.DoubleType(), LANES)


def _address(context: Any, builder: Any, array: Any, value: Any, at: Any) -> Any:
    data = cgutils.create_struct_proxy(array)(context, builder, value=value).data
    return builder.bitcast(builder.gep(data, [at]), _vector(array.dtype).as_pointer())


def _get_lanes(typing: Any, array: Any, at: Any) -> Any:
    """array[at : at + 16] of a flat array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_address(context, builder, array, *args))
        value.align = array.dtype.bitwidth // 8
        return value

    return Lanes(array.dtype)(array, types.intp), codegen


def _put_lanes(typing: Any, array: Any, at: Any, lanes: Any) -> Any:
    """array[at : at + 16] = lanes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        store = builder.store(args[2], _address(context, builder, array, *args[:2]))
        store.align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), codegen


get: Any = intrinsic(_get_lanes)
put: Any = intrinsic(_put_lanes)


def _spread(context: Any, builder: Any, value: Any, kind: Any, dtype: Any) -> Any:
    """The same number in every lane, or lanes as they are."""
    if isinstance(kind, Lanes):
        return value
    number = context.cast(builder, value, kind, dtype)
    word, empty = ir.IntType(32), ir.Constant(_vector(dtype), ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(word, 0))
    everywhere = ir.Constant(ir.VectorType(word, LANES), [0] * LANES)
    return builder.shuffle_vector(first, empty, everywhere)


def _every_lane(typing: Any, number: Any, array: Any) -> Any:
    """The same number in every lane, of the type of an array's elements."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(context, builder, args[0], number, array.dtype)

    return Lanes(array.dtype)(number, array), codegen


every: Any = intrinsic(_every_lane)


def _among(*kinds: Any) -> Any:
    """The lanes among what an operation is given, None if there are none."""
    return next((kind for kind in kinds if isinstance(kind, Lanes)), None)


def _arithmetic(symbol: Callable[..., Any], instruction: str) -> None:
    """Have an operator of Python take lanes, on one side at least, in compiled code."""

    def both(typing: Any, a: Any, b: Any) -> Any:
        lanes = _among(a, b)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            operands = zip(args, (a, b), strict=True)
            spread = [_spread(context, builder, *operand, lanes.dtype) for operand in operands]
            return getattr(builder, instruction)(*spread, flags=CONTRACT)

        return lanes(a, b), codegen

    compute: Any = intrinsic(both)

    @overload(symbol)
    def _(a: Any, b: Any) -> Any:
        def on_lanes(a: Any, b: Any) -> Any:
            return compute(a, b)

        return on_lanes if _among(a, b) else None


def _function(symbol: Callable[..., Any], name: str) -> None:
    """Have a function take lanes: LLVM's of that name, of one argument."""

    def call(typing: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = _vector(x.dtype)
            kind = ir.FunctionType(vector, [vector])
            of_kind = f"llvm.{name}.v{LANES}f{x.dtype.bitwidth}"
            called = cgutils.get_or_insert_function(builder.module, kind, of_kind)
            return builder.call(called, args)

        return x(x), codegen

    compute: Any = intrinsic(call)

    @overload(symbol)
    def _(x: Any) -> Any:
        def on_lanes(x: Any) -> Any:
            return compute(x)

        return on_lanes if _among(x) else None


for _symbol, _instruction in {
    operator.add: "fadd",
    operator.sub: "fsub",
    operator.mul: "fmul",
    operator.truediv: "fdiv",
}.items():
    _arithmetic(_symbol, _instruction)
_function(abs, "fabs")
_function(math.exp, "exp")


def choose(a: Any, b: Any, above: Any, otherwise: Any) -> Any:
    """`above` where a > b, else `otherwise`; also of plain numbers. Compiled code only."""
    raise NotImplementedError


def _choose_lanes(typing: Any, a: Any, b: Any, above: Any, otherwise: Any) -> Any:
    kinds = (a, b, above, otherwise)
    lanes = _among(*kinds)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = zip(args, kinds, strict=True)
        left, right, *results = (_spread(context, builder, *x, lanes.dtype) for x in given)
        return builder.select(builder.fcmp_ordered(">", left, right), *results)

    return lanes(*kinds), codegen


_choose: Any = intrinsic(_choose_lanes)


@overload(choose)
def _choose_overload(a: Any, b: Any, above: Any, otherwise: Any) -> Any:
    def of_lanes(a: Any, b: Any, above: Any, otherwise: Any) -> Any:
        return _choose(a, b, above, otherwise)

    def of_numbers(a: Any, b: Any, above: Any, otherwise: Any) -> Any:
        return above if a > b else otherwise

    return of_lanes if _among(a, b, above, otherwise) else of_numbers
