"""simulmt uses the public names of other packages alone."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))
PUBLIC = {"_replace", "_make", "_asdict", "_fields", "_exit", "_dynamo", "_target_", "_self_"}
"""Private by their look, public by their packages' word: Python's, torch's and Hydra's."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC


def own_names(trees: Iterable[ast.AST]) -> Iterator[str]:
    """The private names that simulmt itself defines or sets."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr


def foreign_names(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """The private names of others that a module imports or reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = [*module.split("."), *(part for n in node.names for part in n.name.split("."))]
            foreign = names[0] != "simulmt" and names[0] != "__future__"
            yield from (name for name in names if foreign and is_private(name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            yield node.attr


def test_no_private_name_of_another_package():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    own = {*own_names(trees.values())}
    found = {path: [*foreign_names(tree, own)] for path, tree in trees.items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_one_module_knows_the_keys_of_a_configuration():
    indexed = {path.stem for path in SOURCES if "config[" in path.read_text(encoding="utf-8")}
    assert indexed <= {"configuration"}
