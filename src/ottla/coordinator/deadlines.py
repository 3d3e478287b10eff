"""The kinds of deadlines of groups, and the keys of their timers."""

from enum import Enum
from typing import NamedTuple


class Due(Enum):
    """The kinds of deadlines of groups."""

    SESSION = "a member's session"
    REVOCATION = "a member's giving up of partitions"
    JOIN = "the joining of a group's members"
    SYNC = "their syncing"
    EXPIRY = "looking for expired offsets"

    __hash__ = object.__hash__  # each look-up hashes a key, and `Enum.__hash__` is slow


class TimerKey(NamedTuple):
    due: Due
    group_id: str = ""
    member_id: str = ""
