"""Expressions that name topics, in the syntax of RE2 and, like there, in linear time.

A client chooses the expression and all groups share one thread, so one that backtracks for hours
must not be possible. An expression becomes a small program (Thompson's construction), which reads a
name once with all its threads at the same time. Only ASCII counts, since names have nothing else.

What RE2 refuses is refused here: look-around, back references, atomic groups, a repetition of a
repetition. Kafka's counterpart: RE2/J, in `TopicRegexResolver`.
"""

import string
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

ALPHABET: Final = frozenset(map(chr, range(128)))
WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
DIGITS: Final = frozenset(string.digits)
SPACES: Final = frozenset("\t\n\f\r ")

CLASSES: Final[dict[str, frozenset[str]]] = {
    "d": DIGITS,
    "D": ALPHABET - DIGITS,
    "w": WORD,
    "W": ALPHABET - WORD,
    "s": SPACES,
    "S": ALPHABET - SPACES,
}

NAMED_CLASSES: Final[dict[str, frozenset[str]]] = {
    "alnum": WORD - {"_"},
    "alpha": frozenset(string.ascii_letters),
    "ascii": ALPHABET,
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": DIGITS,
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": SPACES | {"\v"},
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
"""What stands in `[[:these:]]`."""

CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

MAX_REPEAT: Final = 1000
MAX_PROGRAM: Final = 5000
"""Instructions; what is larger is refused, since every name would be slow to read."""

MAX_DEPTH: Final = 100
CACHE_SIZE: Final = 10_000


class RegexError(ValueError):
    """An expression is none; the text says where and why."""


class Anchor(Enum):
    """Places that take up no character."""

    START = "^"
    END = "$"
    WORD = r"\b"
    NO_WORD = r"\B"


@dataclass(frozen=True, slots=True)
class Read:
    """Goes on with the next instruction if the next character is one of these."""

    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Fork:
    """Goes on at several places, counted from here."""

    steps: tuple[int, ...]


Instruction = Read | Fork | Anchor
Program = list[Instruction]


class TopicRegex:
    """A compiled expression; raises `RegexError`."""

    def __init__(self, text: str) -> None:
        self._program = Parser(text).parse()
        self._known: dict[str, bool] = {}

    def matches(self, name: str) -> bool:
        """Whether it matches a whole name."""
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            known = self._known[name] = self._run(name)
        return known

    def _run(self, name: str) -> bool:
        end = len(self._program)
        threads = self._spread([0], "", name[:1])
        for index, character in enumerate(name):
            read = [
                place + 1
                for place in threads
                if place < end and character in self._program[place].characters  # type: ignore[union-attr]
            ]
            if not read:
                return False
            threads = self._spread(read, character, name[index + 1 : index + 2])
        return end in threads

    def _spread(self, places: Iterable[int], before: str, after: str) -> list[int]:
        """All places to read from, or the end, that are reached without reading."""
        seen: set[int] = set()
        reached = []
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            if place == len(self._program) or isinstance(self._program[place], Read):
                reached.append(place)
                continue
            instruction = self._program[place]
            if isinstance(instruction, Fork):
                waiting += [place + step for step in instruction.steps]
            elif isinstance(instruction, Anchor) and _holds(instruction, before, after):
                waiting.append(place + 1)
        return reached


def _holds(anchor: Anchor, before: str, after: str) -> bool:
    if anchor is Anchor.START:
        return not before
    if anchor is Anchor.END:
        return not after
    is_boundary = (before in WORD) != (after in WORD)
    return is_boundary is (anchor is Anchor.WORD)


class Parser:
    """Recursive descent from text to program."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._ignores_case = False

    def parse(self) -> Program:
        program = self._alternatives()
        if self._at < len(self._text):
            raise self._error("a ) that closes nothing")
        return program

    def _error(self, reason: str) -> RegexError:
        return RegexError(f"{reason}, at character {self._at}")

    def _take(self, text: str) -> bool:
        """Goes over a text if it comes next."""
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._error("it ends too soon")
        character = self._text[self._at]
        self._at += 1
        return character

    # Structure

    def _alternatives(self) -> Program:
        ignores_case = self._ignores_case
        program = self._sequence()
        while self._take("|"):
            other = self._sequence()
            program = [
                Fork((1, len(program) + 2)),
                *program,
                Fork((len(other) + 1,)),
                *other,
            ]
            self._check_size(program)
        self._ignores_case = ignores_case
        return program

    def _sequence(self) -> Program:
        program: Program = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            program += self._repeated(self._atom())
            self._check_size(program)
        return program

    def _check_size(self, program: Program) -> None:
        if len(program) > MAX_PROGRAM:
            raise self._error("it is too large")

    def _repeated(self, program: Program) -> Program:
        bounds = self._bounds()
        if bounds is None:
            return program
        self._take("?")  # to match as little as can be is to match all the same
        start = self._at
        if self._bounds() is not None:
            self._at = start
            raise self._error("a repetition of a repetition")
        least, most = bounds
        if (most or least) * len(program) > MAX_PROGRAM:
            raise self._error("it is too large")
        repeated = program * least
        if most is None:
            return [*repeated, Fork((1, len(program) + 2)), *program, Fork((-len(program) - 1,))]
        for _ in range(most - least):
            repeated += [Fork((1, len(program) + 1)), *program]
        return repeated

    def _bounds(self) -> tuple[int, int | None] | None:
        """How often what came before may stand; a { that says no numbers is a character."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        end = self._text.find("}", self._at)
        if not self._text.startswith("{", self._at) or end < 0:
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            return None
        first = int(least)
        last = first if not comma else int(most) if most else None
        if max(first, last or 0) > MAX_REPEAT or (last is not None and last < first):
            raise self._error("a repetition that is too large or runs backwards")
        self._at = end + 1
        return (first, last)

    # Atoms

    def _atom(self) -> Program:
        if self._take("\\Q"):
            return self._quoted()
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return [Read(self._class())]
            case ".":
                return [Read(ALPHABET - {"\n"})]
            case "^" | "$":
                return [Anchor(character)]
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise self._error(f"a {character} that repeats nothing")
        return [Read(self._cased(frozenset(character)))]

    def _cased(self, characters: frozenset[str]) -> frozenset[str]:
        if not self._ignores_case:
            return characters
        return characters | {one.swapcase() for one in characters}

    def _quoted(self) -> Program:
        """The last character alone is what a repetition repeats; here it is all of them."""
        end = self._text.find("\\E", self._at)
        text = self._text[self._at : end if end >= 0 else len(self._text)]
        self._at += len(text)
        self._take("\\E")
        return [Read(self._cased(frozenset(one))) for one in text]

    def _group(self) -> Program:
        ignores_case = self._ignores_case
        if self._take("?"):
            is_named = self._take("P<") or self._take("<")
            if is_named:
                self._name()
            elif self._flags():
                return []
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error("groups within too many groups")
        program = self._alternatives()
        self._depth -= 1
        self._ignores_case = ignores_case
        if not self._take(")"):
            raise self._error("a ( that is never closed")
        return program

    def _name(self) -> None:
        name = ""
        while (character := self._next()) != ">":
            name += character
        if not name or not set(name) <= WORD:
            raise self._error("a group's name, or a look around, which is not supported")

    def _flags(self) -> bool:
        """Flags for the rest of the group, or before a colon for one of its own."""
        is_on = True
        while (flag := self._next()) not in ":)":
            if flag == "-":
                is_on = False
            elif flag == "i":
                self._ignores_case = is_on
            elif flag not in "msU":
                raise self._error(f"(?{flag} is not supported")
        return flag == ")"

    def _escape(self) -> Program:
        character = self._next()
        if character in CLASSES:
            return [Read(CLASSES[character])]
        match character:
            case "b":
                return [Anchor.WORD]
            case "B":
                return [Anchor.NO_WORD]
            case "A":
                return [Anchor.START]
            case "z":
                return [Anchor.END]
        return [Read(self._cased(frozenset(self._escaped(character))))]

    def _escaped(self, character: str) -> str:
        """The one character that an escape stands for."""
        if character in CONTROLS:
            return CONTROLS[character]
        if character == "x":
            return self._hexadecimal()
        if character in WORD and character != "_":
            raise self._error(f"\\{character} is not supported")
        return character

    def _hexadecimal(self) -> str:
        digits = self._next()
        if digits == "{":
            digits = ""
            while (digit := self._next()) != "}":
                digits += digit
        else:
            digits += self._next()
        if not digits or not set(digits) <= set(string.hexdigits) or int(digits, 16) > 0x10FFFF:
            raise self._error("\\x without a character's number")
        return chr(int(digits, 16))

    # Classes

    def _class(self) -> frozenset[str]:
        is_negated = self._take("^")
        found: set[str] = set()
        is_first = True
        while is_first or not self._take("]"):
            is_first = False
            if self._take("[:"):
                found |= self._named_class()
            elif self._text[self._at : self._at + 1] == "\\" and (
                self._text[self._at + 1 : self._at + 2] in CLASSES
            ):
                self._at += 1
                found |= CLASSES[self._next()]
            else:
                found |= self._range()
        characters = self._cased(frozenset(found))
        return ALPHABET - characters if is_negated else characters

    def _named_class(self) -> frozenset[str]:
        is_negated = self._take("^")
        end = self._text.find(":]", self._at)
        known = NAMED_CLASSES.get(self._text[self._at : end]) if end >= 0 else None
        if known is None:
            raise self._error("[: without a class of characters")
        self._at = end + 2
        return ALPHABET - known if is_negated else known

    def _range(self) -> set[str]:
        first = self._class_character()
        if not self._text.startswith("-", self._at) or self._text.startswith("-]", self._at):
            return {first}
        self._at += 1
        last = self._class_character()
        if last < first:
            raise self._error("a range that runs backwards")
        return {one for one in ALPHABET if first <= one <= last}

    def _class_character(self) -> str:
        character = self._next()
        return self._escaped(self._next()) if character == "\\" else character


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
