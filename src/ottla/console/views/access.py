"""What the pages about users, access rules and quotas share."""

from collections.abc import Sequence
from itertools import islice
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnreachableError, UserError
from ottla.client.refusals import RefusedError
from ottla.console.pages import Ask, Fields
from ottla.console.targets import Place

SECTION = "access"
PER_PAGE = 100
NOT_THERE = frozenset(
    {
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""What a target does not have, not what a visitor may not see."""

Row = TypeVar("Row")


def absence_of(error: UserError) -> str:
    """Why there is nothing to show, in the words of the error. Raises another error again."""
    if isinstance(error, UnreachableError):
        raise error
    if isinstance(error, RefusedError) and error.code not in NOT_THERE:
        raise error
    return str(error)


def paged(ask: Ask, rows: Sequence[Row]) -> tuple[list[Row], Fields]:
    """The rows of the page that the request names, and what its pager needs."""
    pages = max(1, -(-len(rows) // PER_PAGE))
    number = ask.number("page", 1, least=1, most=pages)
    shown = list(islice(rows, (number - 1) * PER_PAGE, number * PER_PAGE))
    return shown, {"page_number": number, "page_count": pages, "count": len(rows)}


def principal_of(place: Place) -> str | None:
    """Whom ACLs name for the visitor; `None` if only the broker knows."""
    security = place.settings.security
    if security.username and not security.is_token:
        return f"User:{security.username}"
    return "User:ANONYMOUS" if security.protocol == "PLAINTEXT" else None
