"""Plans the repair of findings, without changing anything.

The logs are authoritative: only damaged bytes are removed from them, so that other offsets do not
change, and the lost ones are gaps as after compaction. All other files are rebuilt from the logs if
they are wrong. Kafka's recovery would truncate a log at its first bad batch and drop every later
segment.
"""

from collections.abc import Callable, Iterable
from enum import Enum

from ottla.base.files import base_name, join, parent_directory
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.storage.files.filenames import CHECKPOINT_RECOVERY_POINT, parse_directory_name
from ottla.storage.findings import Finding, FindingKind, LostOffsets


class ActionKind(Enum):
    """The steps of a repair, in the order of execution; the values are names in `--json`.

    Steps that use positions in a log come before the steps that change positions.
    """

    STAMP_OFFSET = "stamp_offset"
    """Writes the base offset at which a sound batch fits between its neighbours."""
    STAMP_EPOCH = "stamp_epoch"
    """Writes the leader epoch of a batch by its neighbours and the checkpoint."""
    CUT_OUT = "cut_out"
    """Removes bytes from a log."""
    REMOVE = "remove"
    """Removes an index without a log file."""
    REBUILD_INDEXES = "rebuild_indexes"
    """Rebuilds a log's offset and time index; the path is that of the log."""
    REBUILD_EPOCHS = "rebuild_epochs"
    REBUILD_TRANSACTIONS = "rebuild_transactions"
    REPLACE_SNAPSHOT = "replace_snapshot"
    """Removes a producer snapshot, and writes a new one of the log's end."""
    FINISH_SWAP = "finish_swap"
    """Finishes the replacement of segments; the path is the partition's directory."""
    ACCEPT_LOSS = "accept_loss"
    """Accepts the gaps of a log; the path is the partition's directory."""
    WRITE_TOPIC_ID = "write_topic_id"
    SET_ASIDE = "set_aside"
    """Renames a file without which the next start continues: a checkpoint, or an empty log."""
    SET_CHECKPOINT = "set_checkpoint"
    """Moves a checkpoint's offset into its log, or a recovery point to the log's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One step of a repair; the other fields depend on the kind."""

    kind: ActionKind
    path: str
    reason: str
    position: int | None = None
    size: int | None = None
    is_zero: bool = False
    lost: LostOffsets | None = None
    entry: tuple[str, int, int] | None = None
    offset: int | None = None
    epoch: int | None = None
    topic_id: Uuid | None = None


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The steps in order, and the findings that no step can repair."""

    actions: tuple[Action, ...]
    unmendable: tuple[Finding, ...]

    @property
    def is_empty(self) -> bool:
        return not self.actions and not self.unmendable


SIMPLE_ACTIONS = {
    FindingKind.LOG_DAMAGE: ActionKind.CUT_OUT,
    FindingKind.BATCH_OFFSET: ActionKind.STAMP_OFFSET,
    FindingKind.ORPHAN_INDEX: ActionKind.REMOVE,
    FindingKind.OFFSET_INDEX: ActionKind.REBUILD_INDEXES,
    FindingKind.TIME_INDEX: ActionKind.REBUILD_INDEXES,
    FindingKind.MISSING_INDEX: ActionKind.REBUILD_INDEXES,
    FindingKind.TRANSACTION_INDEX: ActionKind.REBUILD_TRANSACTIONS,
    FindingKind.PRODUCER_SNAPSHOT: ActionKind.REPLACE_SNAPSHOT,
    FindingKind.LEADER_EPOCHS: ActionKind.REBUILD_EPOCHS,
    FindingKind.BATCH_EPOCH: ActionKind.STAMP_EPOCH,
    FindingKind.UNFINISHED_SWAP: ActionKind.FINISH_SWAP,
    FindingKind.GAP: ActionKind.SET_CHECKPOINT,
    FindingKind.LOST_OFFSETS: ActionKind.ACCEPT_LOSS,
    FindingKind.PARTITION_METADATA: ActionKind.WRITE_TOPIC_ID,
    FindingKind.CHECKPOINT: ActionKind.SET_ASIDE,
    FindingKind.EMPTY_LOG: ActionKind.SET_ASIDE,
    FindingKind.CHECKPOINT_ENTRY: ActionKind.SET_CHECKPOINT,
}

NEEDED = {
    ActionKind.STAMP_OFFSET: "offset",
    ActionKind.STAMP_EPOCH: "epoch",
    ActionKind.WRITE_TOPIC_ID: "topic_id",
    ActionKind.CUT_OUT: "size",
    ActionKind.SET_CHECKPOINT: "entry",
}
"""The field that a finding must have for its action to be possible."""

EACH_IS_ONE = (
    ActionKind.CUT_OUT,
    ActionKind.STAMP_OFFSET,
    ActionKind.STAMP_EPOCH,
    ActionKind.SET_CHECKPOINT,
)
"""Actions that are carried out per finding; others cover all findings of their path."""

_ORDER = {kind: place for place, kind in enumerate(ActionKind)}


def plan_repair(
    findings: Iterable[Finding], must_stay: Callable[[Finding], bool] = lambda _: False
) -> RepairPlan:
    """Plans the repair of the findings, except notes; of some nothing may be changed."""
    wrong = [finding for finding in findings if not finding.is_note]
    blocked = {parent_directory(one.path) for one in wrong if one.kind is FindingKind.DAMAGED_SWAP}
    actions: dict[tuple[object, ...], Action] = {}
    unmendable: list[Finding] = []
    for finding in wrong:
        action = None if must_stay(finding) else _action(finding)
        is_blocked = action and action.kind is ActionKind.FINISH_SWAP and action.path in blocked
        if action is None or is_blocked:
            unmendable.append(finding)
            continue
        _add(actions, action)
        if action.kind is ActionKind.CUT_OUT:
            reason = "positions after the removed bytes change"
            _add(actions, Action(kind=ActionKind.REBUILD_INDEXES, path=action.path, reason=reason))
    ordered = sorted(
        actions.values(), key=lambda one: (_ORDER[one.kind], one.path, one.position or 0)
    )
    return RepairPlan(tuple(ordered), tuple(unmendable))


def _add(actions: dict[tuple[object, ...], Action], action: Action) -> None:
    each = (action.position, action.entry) if action.kind in EACH_IS_ONE else ()
    actions.setdefault((action.kind, action.path, each), action)


def _action(finding: Finding) -> Action | None:
    kind = SIMPLE_ACTIONS.get(finding.kind)
    if kind is None or (kind in NEEDED and getattr(finding, NEEDED[kind]) is None):
        return None
    return Action(
        kind=kind,
        path=_path(kind, finding),
        reason=_reason(kind, finding),
        position=finding.position,
        size=finding.size,
        is_zero=finding.is_zero,
        lost=finding.lost,
        entry=finding.entry,
        offset=finding.offset,
        epoch=finding.epoch,
        topic_id=finding.topic_id,
    )


def _reason(kind: ActionKind, finding: Finding) -> str:
    """The finding's reason, with its file name if the action is about another file."""
    named = (ActionKind.REBUILD_INDEXES, ActionKind.FINISH_SWAP, ActionKind.ACCEPT_LOSS)
    if kind in named or finding.kind is FindingKind.GAP:
        return f"{base_name(finding.path)} {finding.reason}"
    return finding.reason


def _path(kind: ActionKind, finding: Finding) -> str:
    """The path of an action, which for some kinds is not that of the finding."""
    if kind is ActionKind.REBUILD_INDEXES:
        return f"{finding.path.rpartition('.')[0]}.log"
    if finding.kind is FindingKind.GAP:
        directory = parent_directory(parent_directory(finding.path))
        return join(directory, CHECKPOINT_RECOVERY_POINT)
    if kind in (ActionKind.FINISH_SWAP, ActionKind.ACCEPT_LOSS):
        # What is lost at a log's end is found in no file of it, but in the partition.
        is_partition = parse_directory_name(base_name(finding.path)) is not None
        return finding.path if is_partition else parent_directory(finding.path)
    return finding.path
