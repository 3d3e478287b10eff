"""The house rules that no linter knows: lengths, and calls that have a better home."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
PRODUCT = [path for path in SOURCES if path.is_relative_to(ROOT / "src")]

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_PARAMETERS = 6

BANNED_IN_PRODUCT = {
    r"(?<![\w.])print\(": "click.echo, or a rich table, in cli/",
    r"\bpickle\.loads?\(": "nothing: bytes from a disk or a peer are parsed",
    r"except\s*:": "except with the errors you mean",
    r"except BaseException:\s*\n\s*pass": "contextlib.suppress with the errors you mean",
    r"\bos\.environ\b": "an argument, read in cli/",
    r"# type: ignore(?!\[)": "# type: ignore[code]",
    r"# noqa(?!:)": "# noqa: CODE",
}
MAY_READ_ENVIRONMENT = ("ottla/cli/", "ottla/spark/")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_file_has_at_most_500_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_FILE_LINES


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_function_has_at_most_70_lines_and_6_parameters(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        named = [one for one in parameters if one.arg not in ("self", "cls")]
        assert len(named) <= MAX_PARAMETERS, f"{node.name} has {len(named)} parameters"


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_banned_calls_have_a_better_home(path: Path) -> None:
    text = path.read_text()
    relative = str(path.relative_to(ROOT / "src"))
    for pattern, instead in BANNED_IN_PRODUCT.items():
        if "environ" in pattern and relative.startswith(MAY_READ_ENVIRONMENT):
            continue
        found = re.search(pattern, text)
        assert found is None, f"{found and found.group()!r}: use {instead}"


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "no module docstring"
