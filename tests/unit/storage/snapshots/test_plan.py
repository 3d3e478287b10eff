"""What a snapshot shares with its directory, and what it does not take."""

from ottla.storage.snapshots.plan import SizedFile, is_taken, plan_copy


def sized(*names: str) -> list[SizedFile]:
    return [SizedFile(name, 10) for name in names]


SEGMENTS = sized(
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000007.log",
    "00000000000000000007.index",
    "00000000000000000007.txnindex",
    "00000000000000000009.log",
    "leader-epoch-checkpoint",
)


def test_logs_of_ended_segments_are_linked_and_all_else_is_copied() -> None:
    plan = plan_copy(sized("meta.properties"), {"orders-0": SEGMENTS})
    assert [one.name for one in plan.linked] == [
        "orders-0/00000000000000000000.log",
        "orders-0/00000000000000000007.log",
    ]
    assert {one.name for one in plan.copied} == {"meta.properties"} | {
        f"orders-0/{one.name}" for one in SEGMENTS
    } - {one.name for one in plan.linked}
    assert plan.folders == ("orders-0",)
    assert plan.size == 80


def test_a_metadata_log_that_is_cut_where_leaders_differ_is_copied() -> None:
    plan = plan_copy([], {"__cluster_metadata-0": SEGMENTS})
    assert plan.linked == ()
    assert len(plan.copied) == len(SEGMENTS)


def test_what_is_a_process_s_own_or_on_its_way_out_is_left() -> None:
    names = (".lock", "ottla-owner", "ottla-snapshot", "meta.properties.tmp", "ottla-log-starts")
    leaving = sized("00000000000000000000.log.deleted", "00000000000000000000.index.cleaned")
    plan = plan_copy(sized(*names), {"orders-0": leaving})
    assert [one.name for one in plan.copied] == ["ottla-log-starts"]
    assert plan.linked == ()


def test_directories_of_partitions_are_taken_and_those_of_deleted_topics_are_not() -> None:
    deleted = f"orders-0.{'a' * 32}-delete"
    names = ["orders-0", "__consumer_offsets-3", deleted, "lost+found", "notes"]
    assert [name for name in names if is_taken(name)] == ["orders-0", "__consumer_offsets-3"]
