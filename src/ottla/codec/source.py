"""A builder for Python source, used by the two message compilers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from struct import Struct
from typing import Any

from ottla.codec.fields import Field


class Source:
    """The lines of one function, and the objects that they refer to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._indent = ""
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append(self._indent + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Adds the line `opening`, and indents the lines added within the context."""
        self.line(opening)
        self._indent += "    "
        yield
        self._indent = self._indent[:-4]

    def fresh(self, stem: str) -> str:
        """A name that is unique in the function, since nested structs are inline."""
        self._count += 1
        return f"{stem}_{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """The name of an object that the function uses; `stem` is used for a new name."""
        for name, known in self.names.items():
            # A bound method is a new object on each lookup, so callables are compared by value.
            if known is value or (callable(value) and known == value):
                return name
        stem = stem.replace("?", "t")
        name = stem if stem not in self.names else self.fresh(stem)
        self.names[name] = value
        return name

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def function(self, name: str, origin: str) -> Callable[..., Any]:
        """Compiles the text and returns its function `name`; `origin` is shown in tracebacks."""
        namespace = dict(self.names)
        exec(compile(self.text(), f"<{origin}>", "exec"), namespace)
        return namespace[name]  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def layout(letters: str) -> Struct:
    return Struct(">" + letters)


def default_expression(source: Source, field: Field) -> str:
    """An expression for the default of a field, which creates new lists and structs."""
    if field.default == () and field.kind == "array":
        return "[]"
    if field.default == () and field.kind == "nested":
        return f"{source.constant(field.struct.__name__, field.struct)}()"
    return repr(field.default)
