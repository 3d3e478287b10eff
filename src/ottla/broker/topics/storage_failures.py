"""A disk's failure during a client's request, as that request's error."""

import contextlib
from collections.abc import Iterator

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError


@contextlib.contextmanager
def storage_failures_answered() -> Iterator[None]:
    """Raises `ApiError` for a `StorageError`."""
    try:
        yield
    except StorageError as error:
        raise storage_refusal(error) from error


def storage_refusal(error: StorageError) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
