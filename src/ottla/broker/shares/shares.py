"""Share groups at the leaders of partitions: sessions of members, acknowledgements and fetches.

Kafka's counterpart: `SharePartitionManager`.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.base.turns import many_in_turns
from ottla.broker.shares.led_partitions import LedPartitions
from ottla.broker.shares.share_fetches import Acknowledging, ShareFetch, ShareQuery, ShareWork
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.share.in_flight import InFlight
from ottla.coordinator.share.records_in_flight import Acknowledgement, ReturnReason
from ottla.coordinator.share.sessions import OPENING, SessionKey, ShareSession, ShareSessions

WRITTEN_WITHIN_MS = 30_000.0
"""How long a member waits until what it says is written; the share coordinator is given up before.
"""


class Said(NamedTuple):
    """What a member says of records of one partition."""

    place: TopicIdPartition
    given: Sequence[Acknowledgement]


class Shares:
    """`led` are the partitions that this broker leads."""

    def __init__(self, led: LedPartitions, most_sessions: int) -> None:
        self.led = led
        self.settings_of = led.settings_of
        self.sessions = ShareSessions(most_sessions)
        self._fetches = led.fetches

    # Sessions

    def session(
        self, key: SessionKey, epoch: int, connection: Hashable, at: Timestamps
    ) -> ShareSession:
        """The session of a fetch, opened or gone on with; raises `ApiError`."""
        self.led.note_time(at)
        if epoch != OPENING:
            return self.sessions.find(key, epoch)
        if not self.sessions.count_of(key.group_id):
            self.led.doubt(key.group_id)
        return self.sessions.open(key, connection)

    def close(self, key: SessionKey) -> None:
        """Ends a session; raises `ApiError`. What its member has is available again."""
        self.sessions.close(key)
        self.led.release(*key, ReturnReason.RELEASED)

    def disconnected(self, connection: Hashable, at: Timestamps) -> None:
        """Ends the sessions of a connection that is closed."""
        self.led.note_time(at)
        for session in self.sessions.disconnected(connection):
            self.led.release(*session.key, ReturnReason.MEMBER_LOST)

    def stop(self) -> None:
        """Ends all sessions, and drops what is in flight: it is available again, once there are
        share groups again. Kafka's counterpart: `SharePartitionManager.onShareVersionToggle`.
        """
        self.sessions.clear()
        self.led.stop()

    # Requests

    def acknowledge(
        self,
        key: SessionKey,
        said: Sequence[Said],
        may_read: Callable[[str], bool] | None,
        at: Timestamps,
    ) -> Acknowledging:
        """Applies what a member says of its records; it counts once it is written."""
        self.led.note_time(at)
        acknowledging = Acknowledging(self._fetches.waiting.wake)
        for one in many_in_turns(said):
            pending = acknowledging.add(one.place)
            try:
                led = self.led.find(key.group_id, one.place, may_read)
                self.led.acknowledge(led, key.member_id, one.given, pending)
            except ApiError as error:
                topic_id, index = one.place
                acknowledging.answer(one.place, self._fetches.refusal(error, None, index, topic_id))
        return acknowledging

    def work(
        self,
        acknowledging: Acknowledging,
        query: ShareQuery | None,
        fetched_by_ms: float,
        at: Timestamps,
    ) -> ShareWork:
        """What is left to do of a request; `query` is what it fetches, until `fetched_by_ms`."""
        fetch = None
        if query is not None:
            fetch = ShareFetch(query, self.led)
        deadlines_ms = (at.monotonic_ms + WRITTEN_WITHIN_MS, fetched_by_ms)
        return ShareWork(self._fetches, acknowledging, fetch, deadlines_ms)

    # Time

    def advance(self, at: Timestamps) -> None:
        self.led.advance(at)

    # For people

    def in_flight(self, group_id: str, place: TopicIdPartition, at: Timestamps) -> list[InFlight]:
        """What a group has in flight in a partition that this broker leads; raises `ApiError`."""
        self.led.note_time(at)
        return self.led.in_flight(group_id, place)

    def progress(self, group_id: str, place: TopicIdPartition) -> tuple[int, int] | None:
        """The first record that a group has not finished, and the end of those that it was given;
        `None` if this broker has not delivered any.
        """
        led = self.led.known(group_id, place)
        return None if led is None else (led.machine.records.start, led.machine.records.end)
