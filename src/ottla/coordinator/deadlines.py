"""The kinds of deadlines of groups, and the keys of their timers."""

from enum import Enum
from typing import NamedTuple


class Due(Enum):
    """What a deadline of a group is for."""

    SESSION = "a member's session"
    REVOCATION = "a member's giving up of partitions"
    JOIN = "the joining of a group's members"
    SYNC = "their syncing"
    EXPIRY = "looking for expired offsets"

    __hash__ = object.__hash__  # that of `Enum` is a function of Python, called by each look-up


class TimerKey(NamedTuple):
    due: Due
    group_id: str = ""
    member_id: str = ""
