"""The results of checks of a broker, and the kinds of fixes."""

from enum import Enum, auto

from ottla.base.values import dataclass


class Remedy(Enum):
    """The kinds of fixes, or that none is needed; `ottla doctor` adds the commands."""

    NONE = auto()
    CLOSE = auto()
    SET_CLOCK = auto()
    COMPARE_CLOCKS = auto()
    NAME_SETTINGS = auto()
    LOOK_THERE = auto()
    ADOPT = auto()
    CHANGE_SETTING = auto()
    TURN_CLEANER_ON = auto()
    MAKE_ROOM = auto()
    REPLACE_DISK = auto()
    INSPECT_STRAY = auto()
    PUT_BACK = auto()
    CHECK = auto()
    CHECK_THEN_REPAIR = auto()
    SHOW_REPAIR = auto()
    REPAIR_IN_PLACE = auto()
    REPAIR_SEGMENT = auto()
    EXPLAIN_RETENTION = auto()
    EXPLAIN_COMPACTION = auto()
    START_RECOVERS = auto()
    START_REMOVES = auto()
    START_REBUILDS = auto()
    BROKER_REMOVES = auto()
    BROKER_MOVES = auto()
    CLEANER_REPLACES = auto()
    START_BROKER = auto()
    START_REPLICAS = auto()
    ELECT_LEADERS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One result of a check; `kind` is the name in `--json`. A note needs no action."""

    kind: str
    where: str
    what: str
    remedy: Remedy
    subject: str = ""
    """The path or topic for the remedy, if that is not `where`."""
    change: str = ""
    """The new setting of the topic, for `CHANGE_SETTING`."""
    is_note: bool = False
