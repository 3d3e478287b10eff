"""The `ottla` command that does what the console does, as text to paste in a shell."""

import shlex
from collections.abc import Sequence

from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command on the console's target, or another one; no word of it may be a password.

    >>> command = Command(
    ...     verb=("topics", "grow"), options=("--dry-run",), arguments=("-tea", "6")
    ... )
    >>> print(command.text(("localhost:9092",)))
    ottla topics grow localhost:9092 --dry-run -- -tea 6
    """

    verb: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Options, each followed by its value."""
    arguments: tuple[str, ...] = ()
    """What comes after the target, such as topics."""
    input: str | None = None
    """What the command reads from its standard input."""
    target: tuple[str, ...] = ()
    """The words that name another target than the console's."""

    def text(self, target: Sequence[str]) -> str:
        """One line for a POSIX shell, or several where quoted text has line ends.

        `target` are the words that name the target, such as `Place.command_words`.
        """
        # Without the two dashes a topic named --yes would be an option.
        dashes = ("--",) if any(one.startswith("-") for one in self.arguments) else ()
        words = (
            "ottla",
            *self.verb,
            *(self.target or target),
            *self.options,
            *dashes,
            *self.arguments,
        )
        line = " ".join(map(shell_word, words))
        return line if self.input is None else f"printf %s {shell_word(self.input)} | {line}"


def shell_word(text: str) -> str:
    """A text as one word of a POSIX shell.

    Text with characters that a terminal obeys, or that are not seen, is written as `$'...'` with
    octal escapes, which bash, zsh, ksh and POSIX 2024 have. The NUL character, which no argument
    can contain, is left out.
    """
    text = text.replace("\0", "")
    if all(one.isprintable() or one == "\n" for one in text):
        return shlex.quote(text)
    pieces = (one if one.isprintable() and one not in "\\'" else _escaped(one) for one in text)
    return f"$'{''.join(pieces)}'"


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "replace"))
