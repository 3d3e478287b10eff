"""Retries a query about a log that retention or DeleteRecords shortens meanwhile.

A `ReadOnlyLog` raises `ApiError` if the offsets that it reads have been deleted. A query about the
whole log is then repeated on its new state. Kafka has no counterpart: a consumer resets its
position instead (`auto.offset.reset`).
"""

from collections.abc import Callable
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.storage.reading.read_only_log import ReadOnlyLog

Answer = TypeVar("Answer")


def ask_log(find: Callable[[], ReadOnlyLog], ask: Callable[[ReadOnlyLog], Answer]) -> Answer:
    """Applies `ask` to the log that `find` opens; opens the log again while its start moves.

    If the log start has not moved since the last attempt, the offsets were never in the log, and
    the `ApiError` of `ask` is raised.
    """
    start = -1
    while True:
        log = find()
        is_later = log.log_start_offset > start
        start = log.log_start_offset
        try:
            return ask(log)
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or not is_later:
                raise
