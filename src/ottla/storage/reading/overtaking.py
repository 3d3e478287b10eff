"""Reading a log that retention, or DeleteRecords, shortens meanwhile: the reader looks again.

A `ReadOnlyLog` raises when what it is to walk has been deleted. That is no error of the log: a
question about it as a whole is asked again of the log as it is by then. Kafka has no counterpart: a
consumer resets its position instead (`auto.offset.reset`).
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
