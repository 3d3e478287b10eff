"""Where a share group begins in a partition of which nothing was delivered: `auto.offset.reset`.

Kafka's counterpart: `SharePartition.startOffsetDuringInitialization`.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.broker.records.fetches import Fetches
from ottla.broker.topics.partition import Partition
from ottla.config.consumer import reset_duration_ms

if TYPE_CHECKING:
    from ottla.broker.records.tier_reads import TierSearch

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


class StartSearch:
    """One search; `found` is called with the offset, or with what went wrong.

    A time is looked for in the remote tier first, if the log has one: then whoever waits is woken
    under `awaited`, and calls `finish` once it `is_done`.
    """

    def __init__(
        self,
        fetches: Fetches,
        partition: Partition,
        offset_reset: str,
        at: Timestamps,
        found: Callable[[int | ApiError], None],
    ) -> None:
        self._fetches = fetches
        self._partition = partition
        self._offset_reset = offset_reset
        self._at = at
        self._found = found
        self._timestamp_ms = -1
        self._in_tier: TierSearch | None = None

    def begin(self) -> None:
        log = self._partition.log
        if self._offset_reset == EARLIEST:
            self._found(log.log_start_offset)
        elif self._offset_reset == LATEST:
            self._found(log.high_watermark)
        else:
            self._timestamp_ms = self._at.now_ms - (reset_duration_ms(self._offset_reset) or 0)
            self._search()

    def _search(self) -> None:
        try:
            self._in_tier = self._fetches.search_tier(self._partition, self._timestamp_ms, -1)
        except ApiError as error:
            self._found(error)
            return
        if self._in_tier is None:
            self.finish()

    @property
    def awaited(self) -> Sequence[Hashable]:
        return () if self._in_tier is None else (self._in_tier,)

    @property
    def is_done(self) -> bool:
        return self._in_tier is not None and self._in_tier.is_done

    def finish(self) -> None:
        """Calls `found`: what is later than all records is the end of the log."""
        search = self._in_tier
        if search is not None and search.error is None and search.is_behind:
            self._search()  # What was local is in the tier now.
            return
        if search is not None and search.error is not None:
            self._found(search.error)
            return
        try:
            found = self._partition.find_offset(
                self._timestamp_ms, in_tier=None if search is None else search.found
            )
        except ApiError as error:
            self._found(error)
            return
        self._found(self._partition.log.high_watermark if found is None else found.offset)
