"""Parses JAAS files: sections, each with a login module and its options.

Kafka's counterpart: Java's `ConfigFile`.
"""

import re
from typing import Final

from ottla.base.patterns import lazy_pattern
from ottla.config.security import JaasEntry

_TOKEN: Final = lazy_pattern(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | "(?P<text>(?:[^"\\\n]|\\.)*)" | (?P<mark>[{};=]) |
    (?P<word>[^\s{};="]+)""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


def parse_jaas_file(text: str) -> dict[str, JaasEntry]:
    """Returns the first login module of each section; raises `ValueError`, which never shows a
    value.
    """
    tokens = _tokens(text)
    sections: dict[str, JaasEntry] = {}
    while tokens:
        section = _take(tokens)
        _expect(tokens, "{")
        entries = []
        while tokens and tokens[0] != "}":
            entries.append(_entry(tokens, section))
        _expect(tokens, "}")
        _expect(tokens, ";")
        if not entries:
            raise ValueError(f"the section {section} has no login module")
        sections.setdefault(section, entries[0])
    return sections


def _entry(tokens: list[str], section: str) -> JaasEntry:
    module, flag = _take(tokens), _take(tokens)
    if flag.lower() not in _FLAGS:
        raise ValueError(f"in the section {section} required must follow {module}")
    options: dict[str, str] = {}
    while tokens and tokens[0] != ";":
        name = _take(tokens)
        _expect(tokens, "=")
        options[name] = _take(tokens)
    _expect(tokens, ";")
    return JaasEntry(module=module, options=options)


def _tokens(text: str) -> list[str]:
    """Yields words, texts and marks; a text keeps its first quote, which distinguishes it from a
    mark.
    """
    found: list[str] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            line = text.count("\n", 0, position) + 1
            raise ValueError(f"line {line} is not JAAS")
        position = token.end()
        if token["text"] is not None:
            found.append('"' + re.sub(r"\\(.)", r"\1", token["text"]))
        elif token["mark"] or token["word"]:
            found.append(token[0])
    return found


def _take(tokens: list[str]) -> str:
    if not tokens or tokens[0] in ("{", "}", ";", "="):
        raise ValueError("a name or value is missing")
    return tokens.pop(0).removeprefix('"')


def _expect(tokens: list[str], mark: str) -> None:
    if not tokens or tokens.pop(0) != mark:
        raise ValueError(f"{mark} is missing")
