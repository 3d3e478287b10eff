"""What tests, benchmarks and documents import from the project is there.

Types are checked in the product only, and simulations run only with everything: without this, a
name that is taken away would be missed by nobody who runs the tests of the room it was in.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.test_house_rules import ROOT, SOURCES


@pytest.mark.slow
def test_every_name_that_is_imported_from_the_project_is_there() -> None:
    imports = [(path, *one) for path in SOURCES for one in imports_of(path)]
    assert imports, "the sources import names of the project"
    missing = [
        f"{path.relative_to(ROOT)}:{line}: {module}.{name}"
        for path, line, module, name in imports
        if not has(module, name)
    ]
    assert missing == []


def imports_of(path: Path) -> Iterator[tuple[int, str, str]]:
    """The line, module and name of each import from a module of the project."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and file_of(node.module):
            yield from ((node.lineno, node.module, one.name) for one in node.names)


def has(module: str, name: str) -> bool:
    """Whether a module binds a name, makes it when it is asked for, or has such a submodule."""
    names = bound_in(module)
    return name in names or "__getattr__" in names or file_of(f"{module}.{name}") is not None


@cache
def file_of(module: str) -> Path | None:
    """The file of a module of the project, or the directory of a package without one."""
    where = module.replace(".", "/")
    for base in (ROOT / "src", ROOT):
        for path in (base / f"{where}.py", base / where / "__init__.py", base / where):
            if path.exists() and (path.suffix == ".py" or any(path.glob("*.py"))):
                return path
    return None


@cache
def bound_in(module: str) -> frozenset[str]:
    """The names that a module's own statements bind, whatever they depend on."""
    path = file_of(module)
    if path is None or path.is_dir():
        return frozenset()
    return frozenset(name for one in ast.parse(path.read_text()).body for name in bound_by(one))


def bound_by(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (one.asname or one.name.partition(".")[0] for one in names)
        case ast.If() | ast.Try() | ast.With() | ast.For():
            for inner in ast.iter_child_nodes(statement):
                for one in inner.body if isinstance(inner, ast.ExceptHandler) else [inner]:
                    if isinstance(one, ast.stmt):
                        yield from bound_by(one)
                    else:
                        yield from stored_in(one)
        case _:
            yield from stored_in(statement)


def stored_in(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id
