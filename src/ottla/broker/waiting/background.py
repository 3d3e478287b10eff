"""Preparation of records in another thread, if it takes longer than other clients should wait.

The broker has no threads: the server passes in an object that has one
(`server/dispatching/background.py`). Without it, the broker prepares the records itself. Kafka's
counterpart: the other threads of `KafkaRequestHandlerPool`.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.waiting.rooms import Waiting
from ottla.storage.log.append import LongPreparationError, PreparedRecords

logger = logging.getLogger(__name__)

Prepared = PreparedRecords | ApiError


class Preparation(Waiting[list[Prepared]]):
    """Records of one request that are being prepared."""

    __slots__ = ("work",)

    def __init__(self, work: Sequence[LongPreparationError]) -> None:
        super().__init__()
        self.work: Sequence[LongPreparationError] = work


class Background(Protocol):
    """Another thread, as the broker uses it."""

    def submit(self, preparation: Preparation) -> None:
        """Starts the work; `take_done` returns it when it has a result."""

    @property
    def has_done(self) -> bool: ...

    def take_done(self) -> list[Preparation]: ...


def carry_out(preparation: Preparation) -> list[Prepared]:
    """Prepares the records; safe in any thread, since nothing else is touched."""
    return [_prepared(one) for one in preparation.work]


def _prepared(work: LongPreparationError) -> Prepared:
    try:
        return work.prepare()
    except ApiError as error:
        return error
    except MemoryError:
        return ApiError(ErrorCode.INVALID_RECORD, "There is no memory to unpack the records in.")
    except Exception:
        logger.exception("records could not be prepared")
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
