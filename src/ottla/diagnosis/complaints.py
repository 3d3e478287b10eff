"""Findings of a check and their fixes, shared by all checks of brokers."""

from enum import Enum, auto

from ottla.base.values import dataclass


class Remedy(Enum):
    """What repairs something, or that nothing needs to be done; `ottla doctor` names commands."""

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
    """`kind` is the name in `--json`; a note asks for nothing to be done."""

    kind: str
    where: str
    what: str
    remedy: Remedy
    subject: str = ""
    """What the remedy is applied to, if that is not `where`: a path, or a topic."""
    change: str = ""
    """The setting that `CHANGE_SETTING` gives the topic."""
    is_note: bool = False
