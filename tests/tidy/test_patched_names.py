"""What a test replaces in a module is looked up there, and copied nowhere.

A module that says `from owner import LIMIT` keeps what it was given. Handlers and commands are
imported when they are first needed: one that is imported while a test has replaced the limit keeps
the replacement for as long as the process lives, and refuses what later tests ask for.

A name that has moved is found here rather than by the few slow tests that replace it.
"""

import ast
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.test_house_rules import PRODUCT, SOURCES, name_of

REPLACERS = ("setattr", "patch", "object")
REPLACING = re.compile(r"\b(monkeypatch\.setattr|patch|patch\.object)\(")
WORD = re.compile(r"\w+")


@pytest.mark.slow
def test_no_module_has_a_copy_of_what_a_test_replaces() -> None:
    others = set(SOURCES) - set(PRODUCT)
    replaced = {name for path in others for name in replaced_by(path)}
    assert replaced, "tests replace some names"
    last_names = {name.rpartition(".")[2] for name in replaced}
    copies = [
        f"{name_of(path)}: {origin}"
        for path in PRODUCT
        if not last_names.isdisjoint(WORD.findall(text := path.read_text()))
        for statement in ast.parse(text).body
        for origin in imported_by(statement).values()
        if origin in replaced
    ]
    assert copies == []


@pytest.mark.slow
def test_every_name_of_the_product_that_a_test_replaces_is_there() -> None:
    others = set(SOURCES) - set(PRODUCT)
    replaced = {name for path in others for name in replaced_by(path)}
    names = sorted(name for name in replaced if name.startswith("ottla."))
    assert names, "tests replace some names of the product"
    assert [name for name in names if not is_there(name)] == []


def is_there(name: str) -> bool:
    """Whether a dotted name can be imported, or is in what can be."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def imported_by(statement: ast.stmt) -> dict[str, str]:
    """What an import binds, and the full names of that."""
    match statement:
        case ast.ImportFrom(module=str(module), names=names):
            return {one.asname or one.name: f"{module}.{one.name}" for one in names}
        case ast.Import(names=names):
            return {one.asname or one.name: one.name for one in names}
    return {}


def replaced_by(path: Path) -> Iterator[str]:
    """The full names that a file replaces: `patch("a.b.C")`, or `setattr(b, "C", ...)`."""
    text = path.read_text()
    if not REPLACING.search(text):
        return
    tree = ast.parse(text)
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            bound |= imported_by(node)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(str(name)), *_]):
                if attr in REPLACERS:
                    yield name
            case ast.Call(func=ast.Attribute(attr=attr), args=[owner, ast.Constant(name), *_]):
                first, *rest = ast.unparse(owner).split(".")
                if attr in REPLACERS and first in bound:
                    yield ".".join([bound[first], *rest, str(name)])
