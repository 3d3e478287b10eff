"""Who is told that a part of what is asked for is lost."""

from collections.abc import Callable

from ottla.base.errors import RefusalError

OnLost = Callable[[str], object]
"""Takes a line about what is lost, with the commands that help."""


def refuse_loss(line: str) -> None:
    """As `OnLost`, for readers that would give wrong answers; raises `RefusalError`."""
    raise RefusalError(line)
