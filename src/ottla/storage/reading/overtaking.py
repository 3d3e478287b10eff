"""Reads a log that retention or DeleteRecords shortens meanwhile, by retrying.

A `ReadOnlyLog` raises if what it reads has been deleted. That is not an error of the log: a query
about the whole log is repeated on its new state. Kafka has no counterpart: a consumer resets its
position instead (`auto.offset.reset`).
"""

from collections.abc import Callable
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.storage.reading.read_only_log import ReadOnlyLog

Answer = TypeVar("Answer")


def ask_log(find: Callable[[], ReadOnlyLog], ask: Callable[[ReadOnlyLog], Answer]) -> Answer:
    """What `ask` answers of the log that `find` opens, which it does again as often as needed.

    It ends, since each time the log starts later than the time before; otherwise `ask` wanted
    offsets that are not in the log, and its error is raised.
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
