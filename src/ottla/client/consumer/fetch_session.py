"""A fetch session with one broker: only changed partitions are listed again (KIP-227).

Values alone: `next_fetch` returns what to list, and `answered` or `lost` take the outcome. Kafka's
counterpart: `FetchSessionHandler`.
"""

from collections.abc import Sequence
from dataclasses import field

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.reading import FetchFrom, SessionFetch

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = 0x7FFFFFFF
LOST = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH,
     ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.INCONSISTENT_TOPIC_ID}
)  # fmt: skip
"""Errors after which a new session begins with the same request."""


@dataclass(slots=True)
class FetchSession:
    """What the broker remembers of the requests of one connection."""

    session_id: int = NO_SESSION
    epoch: int = FIRST_EPOCH
    _known: dict[TopicPartition, FetchFrom] = field(default_factory=dict)

    def next_fetch(self, wanted: Sequence[FetchFrom]) -> SessionFetch:
        """How to request partitions: all at the start of a session, then only changes."""
        asked = {TopicPartition(one.topic, one.partition): one for one in wanted}
        known, self._known = self._known, asked
        if self.epoch == FIRST_EPOCH:
            # With the old id, so that the broker can drop that session.
            return SessionFetch(session_id=self.session_id, epoch=FIRST_EPOCH, named=tuple(wanted))
        return SessionFetch(
            session_id=self.session_id,
            epoch=self.epoch,
            named=tuple(one for place, one in asked.items() if known.get(place) != one),
            forgotten=tuple(place for place in known if place not in asked),
        )

    def answered(self, session_id: int) -> None:
        """A broker without room for sessions returns no id; all partitions are listed each time."""
        self.session_id = session_id
        if session_id == NO_SESSION:
            self.epoch = FIRST_EPOCH
        else:
            self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def lost(self) -> None:
        """The broker no longer knows the session, or the response was lost."""
        self.epoch = FIRST_EPOCH
        self._known = {}
