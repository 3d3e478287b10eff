"""From findings to steps, without a file."""

from ottla.base.ids import Uuid
from ottla.storage.diagnosis.repair_plan import Action, ActionKind, plan_repair
from ottla.storage.findings import Finding, FindingKind, LostOffsets

STEM = "d/t-0/00000000000000000000"


def finding(kind: FindingKind, path: str = f"{STEM}.log", **fields: object) -> Finding:
    values = {"position": None, "reason": "bad", **fields}
    return Finding(kind=kind, path=path, **values)  # type: ignore[arg-type]


def steps(*findings: Finding) -> list[tuple[ActionKind, str]]:
    return [(one.kind, one.path) for one in plan_repair(findings).actions]


def test_nothing_found_needs_nothing() -> None:
    assert plan_repair([]).is_empty
    assert plan_repair([finding(FindingKind.LEFTOVER), finding(FindingKind.STATE)]).is_empty


def test_damage_is_cut_out_place_by_place_before_the_indexes_are_made_once() -> None:
    plan = plan_repair(
        finding(FindingKind.LOG_DAMAGE, position=position, size=10) for position in (500, 100)
    )
    assert [(one.kind, one.position) for one in plan.actions] == [
        (ActionKind.CUT_OUT, 100),
        (ActionKind.CUT_OUT, 500),
        (ActionKind.REBUILD_INDEXES, None),
    ]


def test_headers_are_corrected_before_a_cut_moves_them() -> None:
    found = [
        finding(FindingKind.LOG_DAMAGE, position=100, size=10),
        finding(FindingKind.BATCH_OFFSET, position=500, offset=7),
        finding(FindingKind.BATCH_EPOCH, position=600, epoch=7),
    ]
    assert [kind for kind, _ in steps(*found)] == [
        ActionKind.STAMP_OFFSET,
        ActionKind.STAMP_EPOCH,
        ActionKind.CUT_OUT,
        ActionKind.REBUILD_INDEXES,
    ]


def test_a_cut_knows_what_is_lost() -> None:
    lost = LostOffsets(first=3, last=5)
    found = finding(FindingKind.LOG_DAMAGE, position=7, size=10, lost=lost, is_zero=True)
    assert plan_repair([found]).actions[0] == Action(
        kind=ActionKind.CUT_OUT,
        path=f"{STEM}.log",
        reason="bad",
        position=7,
        size=10,
        lost=lost,
        is_zero=True,
    )


def test_both_indexes_of_a_segment_are_made_at_once() -> None:
    found = [
        finding(FindingKind.OFFSET_INDEX, f"{STEM}.index"),
        finding(FindingKind.TIME_INDEX, f"{STEM}.timeindex"),
        finding(FindingKind.MISSING_INDEX, f"{STEM}.index"),
    ]
    assert steps(*found) == [(ActionKind.REBUILD_INDEXES, f"{STEM}.log")]
    assert plan_repair(found).actions[0].reason == "00000000000000000000.index bad"


def test_a_swap_is_finished_once_for_the_partition_and_after_its_logs_are_repaired() -> None:
    found = [
        finding(FindingKind.UNFINISHED_SWAP, f"{STEM}.log.swap"),
        finding(FindingKind.UNFINISHED_SWAP, f"{STEM}.index.swap"),
        finding(FindingKind.LOG_DAMAGE, position=1, size=1),
    ]
    assert steps(*found)[-1] == (ActionKind.FINISH_SWAP, "d/t-0")
    assert [kind for kind, _ in steps(*found)].count(ActionKind.FINISH_SWAP) == 1


def test_a_damaged_swap_holds_up_the_others_of_its_partition() -> None:
    found = [
        finding(FindingKind.UNFINISHED_SWAP, f"{STEM}.log.swap"),
        finding(FindingKind.DAMAGED_SWAP, f"{STEM}.log.swap", position=3),
        finding(FindingKind.UNFINISHED_SWAP, "d/t-1/00000000000000000000.log.swap"),
    ]
    assert steps(*found) == [(ActionKind.FINISH_SWAP, "d/t-1")]


def test_each_entry_of_a_checkpoint_is_set() -> None:
    found = [
        finding(FindingKind.CHECKPOINT_ENTRY, "d/c", entry=("t", number, 5)) for number in (0, 1)
    ]
    assert steps(*found) == [(ActionKind.SET_CHECKPOINT, "d/c")] * 2


def test_what_nobody_can_know_is_not_repaired() -> None:
    unknown = [
        finding(FindingKind.META_PROPERTIES),
        finding(FindingKind.BROKER_FILE),
        finding(FindingKind.DAMAGED_SWAP),
        finding(FindingKind.PARTITION_METADATA),
        finding(FindingKind.BATCH_EPOCH),
    ]
    plan = plan_repair(unknown)
    assert plan.actions == ()
    assert plan.unmendable == tuple(unknown)
    assert not plan.is_empty
    known = [
        finding(FindingKind.PARTITION_METADATA, topic_id=Uuid(bytes(16))),
        finding(FindingKind.BATCH_EPOCH, position=0, epoch=3),
    ]
    assert {kind for kind, _ in steps(*known)} == {
        ActionKind.WRITE_TOPIC_ID,
        ActionKind.STAMP_EPOCH,
    }
