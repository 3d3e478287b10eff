"""The files, folders, classes and functions that a description of the code names exist.

Descriptions are ARCHITECTURE.md and the pages of docs/architecture. A path is relative to the
package, to the repository, or to a folder that its section has named before. A function or
attribute without its class stands in a file that the section names.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ottla"
FLOWS = ROOT / "docs" / "architecture"
PAGES = [ROOT / "ARCHITECTURE.md", *sorted(FLOWS.glob("*.md"))]

FILE = re.compile(r"(?P<path>(?:[\w.]+/)*\w+\.(?:py|md|toml|yml))(?:: (?P<name>\w+(?:\.\w+)?))?")
FOLDER = re.compile(r"(?:\w+/)+\w*")
MEMBER = re.compile(r"_?[A-Z]\w*[a-z]\w*\.\w+")
NAME = re.compile(r"[A-Za-z]\w*")

NAMES_OF_OTHERS = {
    "None",
    "asyncio", "pwritev", "random", "sendfile", "ssl", "threading",
    "export", "sql",
    "read_committed",
}  # fmt: skip
"""Of Python, of commands, and of settings' values."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_in_a_walk_exists(page: Path) -> None:
    assert list(faults_of(page.read_text())) == []


def test_every_flow_is_listed() -> None:
    index = (FLOWS / "README.md").read_text()
    flows = {page.name for page in FLOWS.glob("*.md")} - {"README.md"}
    assert {name for name in flows if f"({name})" not in index} == set()


def test_a_page_is_written_one_sentence_a_line() -> None:
    """So that a change of one sentence is a change of one line."""
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "performance.md"]
    assert [fault for page in pages for fault in crowded_lines(page)] == []


def test_a_line_with_two_sentences_is_found() -> None:
    assert is_crowded("1. It reads. Then it writes.")
    assert is_crowded("It calls `read`. `write` follows.")
    assert not is_crowded("1. It reads `1. A` and `2. B`, of 3.11 or newer (see `a.py`).")


def crowded_lines(page: Path) -> Iterator[str]:
    for line in without_drawings(page.read_text()).splitlines():
        if not line.startswith(("|", "#")) and is_crowded(line):
            yield f"{page.name}: {line[:100]}"


def is_crowded(line: str) -> bool:
    text = re.sub(r"`[^`]*`", "X", re.sub(r"^\s*(\d+\.|-) ", "", line))
    return re.search(r"[.!?][)*\"]* +[(*\"]*[A-Z\[]", text) is not None


def test_a_name_that_does_not_exist_is_found() -> None:
    names = ["base/timers.py: Timers.set", "timers.py: Timers.later", "Segment.gone", "no_such"]
    text = "## How\n" + ", ".join(f"`{one}`" for one in names)
    assert list(faults_of(text)) == [f"How: `{one}`" for one in names[1:]]


def test_a_short_path_is_in_a_folder_named_before() -> None:
    text = (
        "## How\n`storage/scan.py`, `segment.py`, then `storage/segment/log_order.py`, `segment.py`"
    )
    assert list(faults_of(text)) == ["How: `segment.py`"]


def test_a_name_without_its_class_is_in_a_file_named_before_or_after() -> None:
    assert list(faults_of("## How\n`take_due` of `base/timers.py`")) == []
    assert list(faults_of("## How\n`take_due` of `base/files.py`")) == ["How: `take_due`"]


def faults_of(text: str) -> Iterator[str]:
    """The code spans that look like names of this code, and are not, each with its section."""
    for section in re.split(r"^##? ", without_drawings(text), flags=re.MULTILINE):
        title, _, body = section.partition("\n")
        spans = [" ".join(one.split()) for one in re.findall(r"`([^`]+)`", body)]
        yield from (f"{title}: `{span}`" for span in Section().faults_of(spans))


def without_drawings(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


class Section:
    """The files and folders that a section has named so far."""

    def __init__(self) -> None:
        self._folders = [ROOT, ROOT / "src", PACKAGE]
        self._files: list[Path] = []

    def faults_of(self, spans: Iterable[str]) -> list[str]:
        unknown = [span for span in spans if not self._exists(span)]
        mentioned = set().union(*(words_of(file) for file in self._files))
        return [span for span in unknown if not NAME.fullmatch(span) or span not in mentioned]

    def _exists(self, span: str) -> bool:
        """Whether a span is no name of this code, or names something; notes where that is."""
        if file := FILE.fullmatch(span):
            return self._has_file(file["path"], file["name"])
        if MEMBER.fullmatch(span):
            files = files_by_class().get(span.partition(".")[0], [])
            return any(span in definitions_in(file) for file in files)
        if FOLDER.fullmatch(span):
            return self._has_folder(span)
        if NAME.fullmatch(span):
            is_known = span in files_by_class() or span in NAMES_OF_OTHERS
            return is_known or self._has_folder(span)
        return True

    def _has_file(self, path: str, name: str | None) -> bool:
        for folder in reversed(self._folders):
            file = folder / path
            if file.is_file() and (name is None or name in definitions_in(file)):
                self._folders.append(file.parent)
                self._files.append(file)
                return True
        return False

    def _has_folder(self, path: str) -> bool:
        found = [folder / path for folder in self._folders if (folder / path).is_dir()]
        self._folders += found[:1]
        return bool(found)


@cache
def files_by_class() -> dict[str, list[Path]]:
    files = defaultdict(list)
    for file in PACKAGE.rglob("*.py"):
        for name in re.findall(r"^class (\w+)", file.read_text(), flags=re.MULTILINE):
            files[name].append(file)
    return files


@cache
def words_of(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", file.read_text()))


@cache
def definitions_in(file: Path) -> frozenset[str]:
    return frozenset(names_in(ast.parse(file.read_text()).body))


def names_in(statements: Iterable[ast.stmt], owner: str = "") -> Iterator[str]:
    for statement in statements:
        match statement:
            case ast.ClassDef(name=name, body=body):
                yield owner + name
                yield from names_in(body, f"{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield owner + name
                if owner:
                    yield from attributes_set_in(statement, owner)
            case ast.Assign(targets=targets):
                yield from (owner + one.id for one in targets if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield owner + name


def attributes_set_in(method: ast.stmt, owner: str) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield owner + node.attr
