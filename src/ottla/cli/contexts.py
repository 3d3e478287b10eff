"""The file of named contexts: for each name a target, and the client settings for its brokers.

It is TOML, `$XDG_CONFIG_HOME/ottla/contexts.toml`, and readable only by its owner, since it may
hold passwords. `OTTLA_CONTEXTS` names another file.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import field

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass

PRIVATE = 0o600
CURRENT = "current"
CONTEXTS = "contexts"
TARGET = "target"
NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A context: `target` is a data directory or HOST:PORT,...; `settings` are a client's."""

    name: str
    target: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """All contexts by name, and the name of the one that applies when no target is given."""

    path: str
    known: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    def named(self, name: str) -> Context:
        """Raises `UserError` for a name that is not known."""
        if name not in self.known:
            known = ", ".join(sorted(self.known))
            add = f"ottla context add {name} HOST:PORT"
            raise UserError(
                f"there is no context {name}; "
                + (f"known are {known}, and {add} adds it" if known else f"{add} adds it")
            )
        return self.known[name]


def contexts_path() -> str:
    named = os.environ.get("OTTLA_CONTEXTS")
    if named:
        return named
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "ottla", "contexts.toml")


def read_contexts() -> Contexts:
    """Reads the file; a missing file has no contexts. Raises `UserError` for a damaged one."""
    path = contexts_path()
    try:
        with open(path) as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return Contexts(path=path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; OTTLA_CONTEXTS names another file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: {error}; repair or remove the file") from error
    import tomllib  # Most users have no such file, and every command looks for it.

    try:
        fields = tomllib.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: {error}; repair or remove the file") from error
    tables = fields.get(CONTEXTS, {})
    current = fields.get(CURRENT)
    if not isinstance(tables, dict) or not isinstance(current, str | None):
        raise UserError(f"{path}: {CONTEXTS} is a table, {CURRENT} a text; repair the file")
    known = {name: _context(path, name, table) for name, table in tables.items()}
    return Contexts(path=path, known=known, current=current)


def _context(path: str, name: str, table: object) -> Context:
    if (
        not isinstance(table, dict)
        or TARGET not in table
        or not all(isinstance(one, str) for one in table.values())
    ):
        raise UserError(f'{path}: context {name} needs target = "HOST:PORT", and texts beside it')
    settings = {key: value for key, value in table.items() if key != TARGET}
    return Context(name=name, target=table[TARGET], settings=settings)


def write_contexts(contexts: Contexts) -> None:
    """Replaces the whole file; raises `UserError`."""
    path = contexts.path
    fresh = path + ".new"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
        with os.fdopen(descriptor, "w") as file:
            file.write(_text(contexts))
        os.replace(fresh, path)
    except OSError as error:
        raise UserError(
            f"{error.filename or path}: {error.strerror}; OTTLA_CONTEXTS names another file"
        ) from error


def _text(contexts: Contexts) -> str:
    lines = ["# Written by ottla context."]
    if contexts.current is not None:
        lines.append(f"{CURRENT} = {_quoted(contexts.current)}")
    for name, one in sorted(contexts.known.items()):
        lines += ["", f"[{CONTEXTS}.{_quoted(name)}]", f"{TARGET} = {_quoted(one.target)}"]
        lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in one.settings.items()]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """JSON strings are TOML strings, except for one character that JSON does not escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
