"""The results of checks of a broker, and the kinds of fixes."""

from enum import Enum, auto

from ottla.base.files import base_name
from ottla.base.values import dataclass
from ottla.storage.findings import Finding, FindingKind


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
    PUT_RIGHT_FILE = auto()
    RESTORE = auto()
    RESTORE_SNAPSHOT = auto()
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
    START_FINISHES = auto()
    START_SETS_ASIDE = auto()
    BROKER_REMOVES = auto()
    BROKER_MOVES = auto()
    CLEANER_REPLACES = auto()
    START_BROKER = auto()
    REACH_BROKER = auto()
    START_REPLICAS = auto()
    ELECT_LEADERS = auto()
    REACH_ZOOKEEPER = auto()
    START_VOTERS = auto()
    START_VOTER = auto()
    START_OBSERVER = auto()
    ADD_VOTER = auto()
    LOOK_AT_NODE = auto()
    LOOK_AT_BROKER = auto()
    UNREGISTER_BROKER = auto()
    MAKE_SNAPSHOTS = auto()
    CHECK_TIER = auto()
    LOOK_AT_TIER = auto()
    BROKER_NOTES = auto()
    AS_FOUND = auto()
    """`subject` is the mend, as a start gives it."""


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


REMEDIES_OF_FINDINGS = {
    FindingKind.LOG_DAMAGE: Remedy.SHOW_REPAIR,
    FindingKind.BATCH_OFFSET: Remedy.SHOW_REPAIR,
    FindingKind.BATCH_EPOCH: Remedy.SHOW_REPAIR,
    FindingKind.OFFSET_INDEX: Remedy.SHOW_REPAIR,
    FindingKind.TIME_INDEX: Remedy.SHOW_REPAIR,
    FindingKind.TRANSACTION_INDEX: Remedy.SHOW_REPAIR,
    FindingKind.MISSING_INDEX: Remedy.START_REBUILDS,
    FindingKind.ORPHAN_INDEX: Remedy.SHOW_REPAIR,
    FindingKind.EMPTY_LOG: Remedy.START_SETS_ASIDE,
    FindingKind.PRODUCER_SNAPSHOT: Remedy.SHOW_REPAIR,
    FindingKind.LEADER_EPOCHS: Remedy.SHOW_REPAIR,
    FindingKind.UNFINISHED_SWAP: Remedy.START_FINISHES,
    FindingKind.DAMAGED_SWAP: Remedy.START_SETS_ASIDE,
    FindingKind.GAP: Remedy.SHOW_REPAIR,
    FindingKind.WRONG_FILE: Remedy.PUT_RIGHT_FILE,
    FindingKind.LOST_PARTITION: Remedy.PUT_BACK,
    FindingKind.LOST_OFFSETS: Remedy.SHOW_REPAIR,
    FindingKind.METADATA_SNAPSHOT: Remedy.RESTORE_SNAPSHOT,
    FindingKind.REMOTE_LOG_METADATA: Remedy.RESTORE,
    FindingKind.REMOTE_OBJECT: Remedy.RESTORE,
    FindingKind.REMOTE_ORPHAN: Remedy.NONE,
    FindingKind.PARTITION_METADATA: Remedy.SHOW_REPAIR,
    FindingKind.META_PROPERTIES: Remedy.RESTORE,
    FindingKind.BROKER_FILE: Remedy.RESTORE,
    FindingKind.CHECKPOINT: Remedy.REPAIR_IN_PLACE,
    FindingKind.CHECKPOINT_ENTRY: Remedy.SHOW_REPAIR,
    FindingKind.LEFTOVER: Remedy.START_REMOVES,
    FindingKind.STRANGER: Remedy.INSPECT_STRAY,
    FindingKind.LIVE_TAIL: Remedy.NONE,
    FindingKind.STATE: Remedy.NONE,
}
"""What to do about each kind of finding in a broker's files."""


def complaint_of(finding: Finding, directory: str) -> Complaint:
    """The complaint about a finding in a log directory."""
    name = f" {base_name(finding.path)}" if finding.kind is FindingKind.LOST_PARTITION else ""
    return Complaint(
        kind=finding.kind.value,
        where=finding.path,
        what=finding.reason,
        remedy=REMEDIES_OF_FINDINGS[finding.kind],
        subject=f"{directory}{name}",
        is_note=finding.kind is FindingKind.MISSING_INDEX,
    )
