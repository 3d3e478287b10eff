"""A follower's state, kept by the leader of a partition. Kafka's counterpart: `Replica`."""

from typing import Final

from ottla.base.values import dataclass

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class Replica:
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = -1
    last_caught_up_ms: float = 0
    last_fetch_ms: float = 0
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    last_fetched_epoch: int = UNKNOWN_OFFSET
    """The epoch of the record before its log's end, as its last fetch has it."""

    def fetched(
        self, fetch_offset: int, log_start_offset: int, leader_end: int, now_ms: float
    ) -> None:
        """Records a fetch. A follower that fetches at the log end of the previous fetch was caught
        up at the time of that fetch.
        """
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset, self.log_start_offset = fetch_offset, log_start_offset
        self.leader_end_at_last_fetch, self.last_fetch_ms = leader_end, now_ms

    def is_caught_up(self, leader_end: int, now_ms: float, lag_time_max_ms: float) -> bool:
        return (
            self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_time_max_ms
        )
