"""What the internal topics keep, and what is said where a part of it cannot be read."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ottla.base.errors import ProtocolError
from ottla.base.texts import some_text
from ottla.base.values import dataclass
from ottla.broker.coordination.stored_records import ReadRecords
from ottla.coordinator.offsets import records as group_records
from ottla.coordinator.share import records as share_records
from ottla.coordinator.transaction import records as transaction_records

MAX_NAMED: Final = 20
"""How many groups or transactional ids a message about damage names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """What an internal topic keeps, for messages about damage.

    `owner_of` returns the id of the group, or the transactional id, that the key of a record
    belongs to; `owners` is their name in the plural, and `remedy` what users can do.
    """

    owner_of: Callable[[bytes], str | None]
    owners: str
    remedy: str

    def loss(self, name: str, read: ReadRecords, verb: str, hint: str) -> str | None:
        """Returns what to say of the partition `name`, after its records were `read`.

        `verb` says what is done with the sound part, and `hint` how the log is repaired. Returns
        `None` if nothing is damaged; raises `CorruptionError` if nothing is left.
        """
        if not read.damage:
            return None
        owners = sorted(filter(None, set(map(self.owner_of, read.keys))))
        if not owners:
            # Clients that get an empty answer skip records, or read all of them again.
            raise read.damage[0].error()
        named = some_text(owners, MAX_NAMED)
        damage = "; ".join(map(str, read.damage))
        return (
            f"{name}: {damage}; what is sound is {verb}, without what was last written for these "
            f"{self.owners}, or for others of which nothing is left: {named}; {self.remedy}; {hint}"
        )


def _group_of(key: bytes) -> str | None:
    with suppress(ProtocolError):
        parsed = group_records.decode_key(key)
        return getattr(parsed, "group", None) or getattr(parsed, "group_id", None)
    return None


def _share_group_of(key: bytes) -> str | None:
    with suppress(ProtocolError):
        parsed = share_records.decode_key(key)
        return getattr(parsed, "group_id", None)
    return None


def _transaction_of(key: bytes) -> str | None:
    with suppress(ProtocolError):
        parsed = transaction_records.decode_key(key)
        return None if parsed is None else parsed.transactional_id
    return None


GROUPS: Final = KeptState(
    owner_of=_group_of,
    owners="groups",
    remedy="`ottla groups describe` shows where they continue, and `ottla groups reset` sets it",
)

SHARE_GROUPS: Final = KeptState(
    owner_of=_share_group_of,
    owners="share groups",
    remedy="records that their members have accepted may be delivered again",
)

TRANSACTIONS: Final = KeptState(
    owner_of=_transaction_of,
    owners="transactional ids",
    remedy="`ottla transactions list` and `ottla transactions find-hanging` show how they stand",
)
