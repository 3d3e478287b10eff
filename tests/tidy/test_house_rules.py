"""The house rules that no linter knows: lengths, and calls that have a better home."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each reads all that there is; `make check` runs them every time

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
PRODUCT = [path for path in SOURCES if path.is_relative_to(ROOT / "src")]

MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 70
MAX_PARAMETERS = 6

BANNED_IN_PRODUCT = {
    r"(?<![\w.])print\(": "click.echo, or a rich table, in cli/",
    r"\bpickle\.loads?\(": "nothing: bytes from a disk or a peer are parsed",
    r"except\s*:": "except with the errors you mean",
    r"except BaseException:\s*\n\s*pass": "contextlib.suppress with the errors you mean",
    r"\bos\.environ\b": "an argument, read in cli/",
    r"\nfrom dataclasses import (.*, )?dataclass\b": "that of ottla.base.values",
    r"\n_?[A-Z][A-Z_0-9]*(: Final)? = re\.compile": "lazy_pattern of ottla.base.patterns",
    r"# type: ignore(?!\[)": "# type: ignore[code]",
    r"# noqa(?!:)": "# noqa: CODE",
}
MAY_READ_ENVIRONMENT = ("ottla/cli/", "ottla/spark/")

HOLDING_STATEMENTS = ("body", "orelse", "handlers", "finalbody", "cases")
DOCSTRING = re.compile(r'(?:\s|#.*\n)*r?"""\s*[^\s"]')
"""How a module begins that has one: the rest need not be parsed for it."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_a_file_has_at_most_700_lines() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_a_function_has_at_most_70_lines_and_6_parameters() -> None:
    assert [fault for path in SOURCES for fault in faults_of_functions(path)] == []


def faults_of_functions(path: Path) -> Iterator[str]:
    for node in functions_in(ast.parse(path.read_text()).body):
        place = f"{name_of(path)}:{node.lineno} {node.name}"
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MAX_FUNCTION_LINES:
            yield f"{place} has {length} lines"
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        named = [one for one in parameters if one.arg not in ("self", "cls")]
        if len(named) > MAX_PARAMETERS:
            yield f"{place} has {len(named)} parameters"


def functions_in(statements: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All of them, however deep. Only statements are walked: no expression holds a `def`."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        for name in HOLDING_STATEMENTS:
            yield from functions_in(getattr(statement, name, ()))


def test_banned_calls_have_a_better_home() -> None:
    assert [fault for path in PRODUCT for fault in banned_calls(path)] == []


def banned_calls(path: Path) -> Iterator[str]:
    """Examples in docstrings are an application's, which may print."""
    text = re.sub(r"^ *(>>>|\.\.\.) .*", "", path.read_text(), flags=re.MULTILINE)
    relative = str(path.relative_to(ROOT / "src"))
    for pattern, instead in BANNED_IN_PRODUCT.items():
        if "environ" in pattern and relative.startswith(MAY_READ_ENVIRONMENT):
            continue
        found = re.search(pattern, text)
        if found is not None:
            yield f"{relative}: {found.group()!r}: use {instead}"


def test_a_module_says_what_it_is_for() -> None:
    silent = [path for path in PRODUCT if not DOCSTRING.match(path.read_text())]
    assert [name_of(path) for path in silent] == []
