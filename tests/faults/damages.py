"""The ways to damage a file."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import load_file, save_file

Damage: TypeAlias = Callable[[Path, random.Random], object]
LEAVES: list[Any] = [None, True, -1, 10**30, 1e300, "", "text", [], {}, [[]], {"a": {}}]
LINES = [b"[]", b'{"index": 0}', b",,", b"", b"\x00", b"nan,1e999,x", b'"']
TENSORS: list[Callable[[torch.Tensor], Any]] = [
    lambda t: t.half(),
    lambda t: t.to(torch.int64),
    lambda t: t.bool(),
    lambda t: t.flatten()[:1].clone(),
    lambda t: t[None],
    lambda t: torch.full_like(t, torch.nan) if t.is_floating_point() else t.double(),
    lambda t: t.to(torch.complex64),
    lambda t: t.flatten()[:1].expand(10**9),  # from here on only for checkpoints
    lambda t: torch.zeros(1).expand(10**6, 10**6),
    lambda t: t.to_sparse(),
    lambda t: "no tensor",
]


class Hostile:
    """Makes a file, the canary, wherever it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


def damages(canary: Path) -> dict[str, Damage]:
    """The ways, by name; whatever is executed makes the file `canary`."""
    contents: dict[str, Callable[[bytes, random.Random], bytes]] = {
        "empty": lambda old, rng: b"",
        "a list": lambda old, rng: b"[1, 2]\n",
        "nested": lambda old, rng: b"[" * 100_000,
        "deep objects": lambda old, rng: b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "a huge number": lambda old, rng: b'{"a": ' + b"9" * 100_000 + b"}",
        "not UTF-8": lambda old, rng: b"\xff\xfe{}",
        "YAML that runs": lambda old, rng: (
            f'!!python/object/apply:os.system ["touch {canary}"]\n'.encode()
        ),
        "one long line": lambda old, rng: b"a" * 5_000_000,
        "cut to its start": lambda old, rng: old[:20],
        "cut to a half": lambda old, rng: old[: len(old) // 2],
        "cut by a byte": lambda old, rng: old[:-1],
        "noise": lambda old, rng: rng.randbytes(len(old)),
        "zeros": lambda old, rng: bytes(len(old)),
        "doubled": lambda old, rng: old * 2,
        "a flipped bit": flip,
    }
    places: dict[str, Damage] = {
        "a pickle that runs": lambda path, rng: torch.save({"simulmt": Hostile(canary)}, path),
        "absent": lambda path, rng: path.unlink(),
        "a folder": lambda path, rng: (path.unlink(), path.mkdir()),
        "a loop": lambda path, rng: (path.unlink(), path.symlink_to(path)),
        **{f"another value {number}": change for number in range(6)},
    }

    def rewrite(make: Callable[[bytes, random.Random], bytes]) -> Damage:
        return lambda path, rng: path.write_bytes(make(path.read_bytes(), rng))

    return {name: rewrite(make) for name, make in contents.items()} | places


def flip(content: bytes, rng: random.Random) -> bytes:
    """Flip one bit."""
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def change(path: Path, rng: random.Random) -> None:
    """Change a value inside a file that has a structure; of others, a line."""
    if path.suffix == ".ckpt":
        torch.save(changed(torch.load(path, weights_only=True), rng), path)
    elif path.suffix == ".safetensors":
        weights = load_file(path)
        name = rng.choice([*weights])
        weights[name] = rng.choice(TENSORS[:7])(weights[name]).contiguous()
        save_file(weights, path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(changed(json.loads(path.read_text()), rng)))
    else:
        lines = path.read_bytes().split(b"\n")
        lines[rng.randrange(len(lines))] = rng.choice(LINES)
        path.write_bytes(b"\n".join(lines))


def changed(content: Any, rng: random.Random) -> Any:
    """Nested values of which one is another, or absent."""
    if isinstance(content, torch.Tensor):
        return rng.choice(TENSORS)(content)
    if not isinstance(content, (dict, list)) or not content or rng.random() < 0.1:
        return rng.choice(LEAVES)
    key = rng.choice([*content] if isinstance(content, dict) else range(len(content)))
    if rng.random() < 0.15:
        del content[key]
    else:
        content[key] = changed(content[key], rng)
    return content
