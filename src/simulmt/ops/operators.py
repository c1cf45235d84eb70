"""Kernels and their adjoints as differentiable operators of PyTorch, `simulmt::*`.

Registered through `torch.library`, so that autograd, autocast, `torch.compile` and DDP see ordinary
operators. Every backend registers the same operations with the same signatures.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

Backend: TypeAlias = Callable[..., None]
"""Runs the kernel of an operation, or of its adjoint: `run(name, inputs, outputs, *integers)`.

`name` is the operation's, with `_adjoint` for its adjoint; `inputs` are contiguous, `outputs` wait
to be filled. Among an adjoint's inputs, the gradient of an output that nothing depends on is None.
"""


class Operation(NamedTuple):
    """The signature of an operator and of its adjoint. All outputs have the first input's shape."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kept: tuple[str, ...]
    """What the adjoint takes besides the outputs' gradients. The first ones have the shapes of the
    inputs, in their order; the gradients are allocated like these."""
    integers: tuple[str, ...] = ()


ALIGNMENT = Operation("alignment", ("p", "initial"), ("alpha",), ("p", "initial", "alpha"))
LOOKBACK = Operation("lookback", ("alpha", "energy"), ("beta",), ("energy", "beta"))
CHUNKWISE = Operation("chunkwise", ("alpha", "energy"), ("beta",), ("alpha", "energy"), ("chunk",))
ALIGNMENT_LOOKBACK = Operation(
    "alignment_lookback",
    ("logit", "energy", "initial"),
    ("alpha", "beta"),
    ("logit", "energy", "initial", "alpha"),
)


def operator(prefix: str, operation: Operation, run: Backend) -> Any:
    """The differentiable operator `simulmt::{prefix}{name}`, registered with its adjoint.

    Args:
        prefix: the backend's mark; operators of two backends differ by it alone.
        operation: the signature.
        run: computes the outputs and, under the adjoint's name, the inputs' gradients from the
            outputs' gradients and what was kept.

    Returns:
        A function of inputs and integers that returns a tensor, or a tuple of several.
    """
    name, given, outputs, kept, integers = operation
    numbers, count = [f"int {x}" for x in integers], len(outputs)
    arguments = [f"Tensor {x}" for x in given] + numbers
    forward = _register(prefix, name, arguments, run, like=[0] * count)
    arguments = [f"Tensor? grad_{x}" for x in outputs] + [f"Tensor {x}" for x in kept] + numbers
    places = range(count, count + len(given))
    backward = _register(prefix, f"{name}_adjoint", arguments, run, like=places)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.integers = inputs[len(given) :]
        values = *inputs[: len(given)], *(output if isinstance(output, tuple) else (output,))
        tensors = dict(zip(given + outputs, values, strict=True))
        ctx.save_for_backward(*(tensors[x] for x in kept))
        ctx.set_materialize_grads(False)  # else an unused output gets a gradient of zeros

    def backpropagate(ctx: Any, *grad: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(x is None for x in grad):
            return (None,) * len(given + integers)
        return *backward(*grad, *ctx.saved_tensors, *ctx.integers), *(None for _ in integers)

    forward.register_autograd(backpropagate, setup_context=setup_context)
    return forward


def _register(
    prefix: str, name: str, arguments: Sequence[str], run: Backend, like: Sequence[int]
) -> Any:
    """An operator whose outputs have the shapes of the arguments at the places `like`."""

    def allocate(*arguments: Any) -> Any:
        outputs = tuple(arguments[i].new_empty(arguments[i].shape) for i in like)
        return outputs if len(outputs) > 1 else outputs[0]

    def compute(*arguments: Any) -> Any:
        integers = [x for x in arguments if isinstance(x, int)]
        tensors = arguments[: len(arguments) - len(integers)]
        # a kernel reads element after element: a view of an expanded tensor would be too short
        inputs = [None if x is None else x.detach().contiguous() for x in tensors]
        outputs = allocate(*arguments)
        run(name, inputs, outputs if isinstance(outputs, tuple) else (outputs,), *integers)
        return outputs

    returns = ", ".join(["Tensor"] * len(like))
    schema = f"({', '.join(arguments)}) -> {f'({returns})' if len(like) > 1 else returns}"
    operator = torch.library.custom_op(
        f"simulmt::{prefix}{name}", compute, mutates_args=(), schema=schema
    )
    operator.register_fake(allocate)
    return operator
