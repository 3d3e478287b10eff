"""The five offsets of a log, and the order that always holds between them.

Kafka's counterpart: the fields of `UnifiedLog` and `LocalLog`.
"""


class LogOffsets:
    """`log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`, always.

    `log_start_offset` is the first offset that readers may ask for, `log_end_offset` the next one
    to be written, `high_watermark` the end of what consumers may see, and `last_stable_offset` the
    end of what is decided by transactions. `recovery_point` is the first offset not yet known to
    be on the disk.
    """

    __slots__ = (
        "cut_count",
        "first_unstable_offset",
        "high_watermark",
        "is_front_unsynced",
        "log_end_offset",
        "log_start_offset",
        "recovery_point",
    )

    def __init__(self, *, log_start_offset: int, log_end_offset: int, recovery_point: int) -> None:
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.first_unstable_offset: int | None = None
        self.recovery_point = recovery_point
        self.cut_count = 0
        """How often the log was cut at its end: what was known of its offsets is void then."""
        self.is_front_unsynced = False
        """Whether a crash could bring segments back that have left below the log's start."""
        self.check()

    @property
    def last_stable_offset(self) -> int:
        unstable = self.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def check(self) -> None:
        """Asserts the order; called after every change.

        `last_stable_offset` keeps to it by how it is computed.
        """
        assert 0 <= self.log_start_offset <= self.high_watermark <= self.log_end_offset

    def appended(self, log_end_offset: int) -> None:
        assert log_end_offset >= self.log_end_offset
        self.log_end_offset = log_end_offset

    def move_high_watermark(self, offset: int) -> None:
        """Forward only; clipped to the log's end."""
        end = self.log_end_offset
        clipped = offset if offset < end else end
        if clipped > self.high_watermark:
            self.high_watermark = clipped
        self.check()

    def move_log_start(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.high_watermark
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self.check()

    def flushed(self, offset: int) -> None:
        """Only an fsync that succeeded may call this."""
        assert offset <= self.log_end_offset
        self.recovery_point = max(self.recovery_point, offset)

    def truncated(self, log_end_offset: int) -> None:
        """The log was cut at its end: nothing may point beyond its new end."""
        self.cut_count += 1
        self.log_end_offset = log_end_offset
        self.high_watermark = min(self.high_watermark, log_end_offset)
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self.log_start_offset = min(self.log_start_offset, log_end_offset)
        self.check()

    def restarted(self, offset: int) -> None:
        """The log was emptied and continues at `offset`."""
        self.cut_count += 1
        self.log_start_offset = self.high_watermark = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.first_unstable_offset = None
        self.check()
