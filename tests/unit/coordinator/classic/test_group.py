"""What a group makes of its records, one after the other."""

from dataclasses import replace

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.offsets.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def value(protocol: str, *members: tuple[str, bytes], generation: int = 1) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol=protocol,
        leader=members[0][0],
        members=[
            MemberMetadata(member_id=member_id, session_timeout_ms=1, subscription=subscription)
            for member_id, subscription in members
        ],
    )


def take(group: ClassicGroup, value: GroupMetadataValue) -> None:
    group.replay(GroupMetadataKey(group="g"), value)


def test_a_member_offers_what_the_latest_record_says() -> None:
    group = ClassicGroup("g")
    take(group, value("range", ("a", b"range of a")))
    take(group, value("sticky", ("a", b"sticky of a"), ("b", b"sticky of b"), generation=2))
    assert group.describe().members[0].metadata == b"sticky of a"
    assert group.supports("consumer", {"sticky": b""})
    assert not group.supports("consumer", {"range": b""})


def test_a_member_keeps_what_it_offers_beside_the_record() -> None:
    group = ClassicGroup("g")
    take(group, value("range", ("a", b"meta")))
    offers = {"range": b"meta", "sticky": b"more"}
    group.put(replace(group.members["a"], protocols=offers))
    take(group, value("range", ("a", b"meta"), generation=2))
    assert group.supports("consumer", {"sticky": b""})


def test_members_that_a_record_leaves_out_are_gone() -> None:
    group = ClassicGroup("g")
    take(group, value("range", ("a", b""), ("b", b"")))
    group.pending_syncs = {"a", "b"}
    take(group, value("range", ("b", b""), generation=2))
    assert list(group.members) == ["b"]
    assert group.pending_syncs == {"b"}
