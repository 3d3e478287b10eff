"""A view: a function from an `Ask` to a page, and whether it accepts forms."""

from collections.abc import Callable

from starlette.responses import Response

from ottla.base.errors import RefusalError
from ottla.base.values import dataclass
from ottla.console.pages import Ask, Page, Redirect


@dataclass(frozen=True, slots=True)
class View:
    """`show` may raise `UserError`, `ApiError`, `CorruptionError`, `OSError`."""

    show: Callable[[Ask], Page | Redirect | Response]
    takes_forms: bool = False


def check_writes(ask: Ask) -> None:
    """Raises `RefusalError` if the console is read-only."""
    if not ask.state.allows_writes:
        raise RefusalError("this console is read-only; ottla console --allow-writes changes that")
