"""A view: a function from an `Ask` to a page, and whether it accepts forms."""

from collections.abc import Callable

from starlette.responses import Response

from ottla.base.values import dataclass
from ottla.console.pages import Ask, Page, Redirect


@dataclass(frozen=True, slots=True)
class View:
    """`show` may raise `UserError`, `ApiError`, `CorruptionError`, `OSError`."""

    show: Callable[[Ask], Page | Redirect | Response]
    takes_forms: bool = False
    changes: bool = True
    """Whether its forms change something, which a read-only console refuses."""
