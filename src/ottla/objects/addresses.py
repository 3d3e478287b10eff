"""Addresses of stores, as people write them: a path, or a URL such as `s3://bucket/orders`."""

import os
import re

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass

_ADDRESS = lazy_pattern(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_LOCAL_ADDRESS = lazy_pattern(r"(file|local):/")
_ONE_SLASH = lazy_pattern(r"([a-z][a-z0-9+.-]+):/(?!/)(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Provider:
    """What a store calls the place of objects, and the variables that say how to reach it."""

    place: str
    credentials: str
    endpoint: str


_AMAZON = Provider(
    "BUCKET", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", "AWS_ENDPOINT_URL"
)
_GOOGLE = Provider("BUCKET", "GOOGLE_SERVICE_ACCOUNT, a key file", "GOOGLE_SERVICE_ACCOUNT")
_AZURE = Provider(
    "CONTAINER",
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCOUNT_NAME",
)
PROVIDERS = {
    **dict.fromkeys(("s3", "s3a"), _AMAZON),
    "gs": _GOOGLE,
    **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), _AZURE),
}
"""By the scheme of their addresses."""


def is_address(path: str) -> bool:
    """Whether the text is an address such as `s3://bucket/tables/orders`, rather than a path."""
    return _ADDRESS.match(path) is not None


def full_address(path: str) -> str:
    """The one spelling of an address in reports: an absolute path for a directory.

    Raises `UserError` for a misspelled address, which would be the path of a directory.
    """
    if _LOCAL_ADDRESS.match(path):
        raise UserError(f"{path}: give a directory of this machine by its path, without file:")
    if found := _ONE_SLASH.match(path):
        raise UserError(
            f"{path}: write {found[1]}://{found[2]}, or ./{path} for a directory of this machine"
        )
    if not is_address(path):
        return os.path.abspath(path)
    scheme, mark, rest = path.partition("://")
    return scheme + mark + rest.rstrip("/")


def check_provider(address: str, noun: str) -> None:
    """Raises `UserError` for a URL of a store that is not known; `noun` is what should lie there,
    such as "table".
    """
    scheme, _, rest = address.partition("://")
    if scheme not in PROVIDERS:
        raise UserError(
            f"{address}: a {noun} lies in a directory, given by its path, or in an object store, "
            f"such as s3://, gs:// or abfss://"
        )
    if not rest or rest.startswith("/"):
        raise UserError(f"{address}: write {scheme}://{PROVIDERS[scheme].place}/{noun.upper()}")
