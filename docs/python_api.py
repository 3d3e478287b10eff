"""Writes docs/python.md and docs/python/, the reference of the Python API, from signatures and
docstrings: a page for each class with several methods, the others together.
"""

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, is_typeddict

import ottla
from ottla import aio, table, testing
from ottla.embedded.held_broker import HeldBroker
from ottla.embedded.listening import Listening
from ottla.embedded.readable import ReadableLog
from ottla.testing import history

PAGE = Path(__file__).resolve().parent / "python.md"
FOLDER = PAGE.with_suffix("")
MADE = "<!-- made by `make docs` from the docstrings in src/ottla -->"

HEAD = f"""# The Python API

{MADE}

Every example below is run by a test. A target is an open `Log`, a data directory, or brokers as
`HOST:PORT,HOST:PORT`.
"""

MODULES: tuple[tuple[ModuleType, str], ...] = (
    (ottla, "ottla"),
    (aio, "ottla.aio"),
    (table, "ottla.table"),
    (testing, "ottla.testing"),
    (history, "ottla.testing.history"),
)
WIDTH = 96
OWN_PAGE = 4
"""Methods with which a class has a page of its own."""
_EXAMPLE = re.compile(r"(?:^(?:>>>|\.\.\.) ?.*\n(?:(?!>>>)\S.*\n|    .*\n)*)+", re.MULTILINE)
_MODULE = re.compile(r"\b(?:ottla|collections|typing|pathlib|builtins)(?:\.\w+)*\.(?=[A-Z]\w*)")


def pages() -> dict[Path, str]:
    """The index, and all other pages."""
    found = {PAGE: "\n".join([HEAD, *_index()])}
    sections: dict[str, list[str]] = {}
    for module, place in MODULES:
        for name in sorted(module.__all__):
            page = page_of(getattr(module, name), place, name)
            sections.setdefault(page, []).extend(_section(module, place, name))
    for page, texts in sections.items():
        found[FOLDER / page] = "\n".join([f"# Python: {_title(page)}\n\n{MADE}\n", *texts])
    return {path: text.rstrip() + "\n" for path, text in found.items()}


def write() -> None:
    """Writes all pages, and removes those of classes that are gone."""
    made = pages()
    FOLDER.mkdir(exist_ok=True)
    for path in set(FOLDER.glob("*.md")) - made.keys():
        path.unlink()
    for path, text in made.items():
        path.write_text(text)


def page_of(thing: Any, place: str, name: str) -> str:
    """The file in docs/python that describes a name."""
    module = place.removeprefix("ottla").strip(".").replace(".", "-")
    if not inspect.isclass(thing) or is_typeddict(thing):
        return f"{module or 'values'}.md"
    if issubclass(thing, BaseException):
        return f"{module or 'errors'}.md"
    if len(list(_members(thing))) >= OWN_PAGE:
        return f"{module}-{name}.md".strip("-").lower()
    return f"{module or 'values'}.md"


def _title(page: str) -> str:
    return page.removesuffix(".md").replace("-", " ")


def _index() -> Iterator[str]:
    yield "| name | meaning |\n|---|---|"
    for module, place in MODULES:
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            anchor = f"{place}.{name}".replace(".", "").lower()
            words = _first_line(thing).replace("|", "\\|")
            yield f"| [`{place}.{name}`](python/{page_of(thing, place, name)}#{anchor}) | {words} |"
    yield ""


def _section(module: ModuleType, place: str, name: str) -> Iterator[str]:
    thing = getattr(module, name)
    yield f"## `{place}.{name}`\n"
    if not inspect.isclass(thing):
        yield _signature(thing, f"{place}.{name}")
        yield _words(thing)
        return
    if not issubclass(thing, BaseException | Enum) and not is_typeddict(thing):
        yield _signature(thing, f"{place}.{name}")
    yield _words(thing)
    if issubclass(thing, Enum):
        yield ", ".join(f"`{one.name}`" for one in thing) + "\n"
        return
    for method, member in _members(thing):
        yield f"### `{name}.{method}`\n"
        if callable(member):
            yield _signature(member, method)
        yield _words(member)


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties with a docstring, as the class has them in its sources."""
    seen: dict[str, Any] = {}
    for owner in reversed(thing.__mro__):
        if owner.__module__.startswith("ottla"):
            public = {name: one for name, one in vars(owner).items() if not name.startswith("_")}
            seen |= {name: one for name, one in public.items() if not is_inner(owner, name)}
    for name, member in seen.items():
        is_shown = callable(member) or isinstance(member, property | classmethod | staticmethod)
        if is_shown and inspect.getdoc(member):
            yield name, getattr(thing, name)


def is_inner(owner: type, name: str) -> bool:
    """Whether other parts of Ottla call a method, and its users do not."""
    if owner is Listening:
        return name != "close"
    if name in ("regions", "open_files"):
        return True
    return owner is HeldBroker and name not in {*vars(ReadableLog), "listen"}


def _signature(thing: Any, name: str) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    shown = [
        one.replace(annotation=_plain(one.annotation))
        for one in signature.parameters.values()
        if one.name != "self"
    ]
    signature = signature.replace(
        parameters=shown, return_annotation=_plain(signature.return_annotation)
    )
    line = _unquoted(f"{name}{signature}")
    if len(line) > WIDTH:
        parts = ",\n    ".join(_unquoted(str(one)) for one in _with_marks(shown))
        returned = _unquoted(str(signature.return_annotation))
        ending = "" if signature.return_annotation is signature.empty else f" -> {returned}"
        line = f"{name}(\n    {parts},\n){ending}"
    return f"```python\n{line}\n```\n"


def _with_marks(parameters: list[inspect.Parameter]) -> Iterator[object]:
    """With the star before what is given by name."""
    before = None
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            yield "*"
        before = one.kind
        yield one


class _Text(str):
    """An annotation that is shown as it stands."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _plain(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Text(_MODULE.sub("", text.replace('"', "").replace("'", "")))


def _unquoted(text: str) -> str:
    """Defaults that are objects are shown without where they lie in memory."""
    return re.sub(r"<(?:[\w.]+\.)?(\w+)[^<>]*>", r"\1", text)


def _words(thing: Any) -> str:
    """A docstring with its examples as blocks."""
    text = inspect.cleandoc(inspect.getdoc(thing) or "") + "\n"
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


def _first_line(thing: Any) -> str:
    text: str = inspect.cleandoc(inspect.getdoc(thing) or "")
    return text.partition("\n\n")[0].replace("\n", " ")
