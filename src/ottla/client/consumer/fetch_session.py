"""A fetch session with one broker: only partitions that changed are named again (KIP-227).

Values alone: `next_fetch` says what to name, and `answered` or `lost` what came of it. Kafka's
counterpart: `FetchSessionHandler`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.client.reading import FetchFrom, SessionFetch

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = 0x7FFFFFFF
LOST = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH,
     ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.INCONSISTENT_TOPIC_ID}
)  # fmt: skip
"""Refusals after which a new session begins, and the same is asked."""


@dataclass(slots=True)
class FetchSession:
    """What the broker remembers of the requests of one connection."""

    session_id: int = NO_SESSION
    epoch: int = FIRST_EPOCH
    _known: dict[TopicPartition, FetchFrom] = field(default_factory=dict)

    def next_fetch(self, wanted: Sequence[FetchFrom]) -> SessionFetch:
        """How to ask for partitions: all by name at the begin of a session, then the changes."""
        asked = {TopicPartition(one.topic, one.partition): one for one in wanted}
        known, self._known = self._known, asked
        if self.epoch == FIRST_EPOCH:
            # With the old id, so that the broker may forget that session.
            return SessionFetch(session_id=self.session_id, epoch=FIRST_EPOCH, named=tuple(wanted))
        return SessionFetch(
            session_id=self.session_id,
            epoch=self.epoch,
            named=tuple(one for place, one in asked.items() if known.get(place) != one),
            forgotten=tuple(place for place in known if place not in asked),
        )

    def answered(self, session_id: int) -> None:
        """A broker without room for sessions gives no id, and all is named each time."""
        self.session_id = session_id
        if session_id == NO_SESSION:
            self.epoch = FIRST_EPOCH
        else:
            self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def lost(self) -> None:
        """The broker does not know the session any more, or the answer was lost."""
        self.epoch = FIRST_EPOCH
        self._known = {}
