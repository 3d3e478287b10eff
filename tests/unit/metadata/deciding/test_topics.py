"""Topics: what they may be called, how large they may be, who has their replicas."""

from collections.abc import Callable

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.config.topic import TopicConfig
from ottla.metadata.deciding.topic_rules import changed_settings, check_name, topic_config
from ottla.metadata.deciding.topics import (
    MAX_PARTITION_COUNT,
    Defaults,
    NewTopic,
    TopicGrowth,
    added_placing,
    check_new_name,
    new_placing,
    same_in_metrics,
)
from ottla.metadata.image import PartitionImage, TopicImage

ONE = {1: None}
THREE = dict.fromkeys((1, 2, 3))
DEFAULTS = Defaults(partition_count=7, replication_factor=1)


def refusal_of(deed: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        deed()
    return caught.value.code


def no_chance() -> int:
    raise AssertionError("nothing is left to chance")


def assigned(new: NewTopic) -> dict[int, tuple[int, ...]]:
    return dict(dict(new_placing(new, ONE, DEFAULTS, no_chance)))


def topic(count: int, *replicas: int, name: str = "t") -> TopicImage:
    one = PartitionImage(
        replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0, partition_epoch=0
    )
    return TopicImage(name, Uuid(bytes(16)), dict.fromkeys(range(count), one))


# Names


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_kafkas_legal_names_are_legal(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n"])
def test_kafkas_illegal_names_are_refused(name: str) -> None:
    assert refusal_of(lambda: check_name(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a.b", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__cluster_metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_taken_name_and_one_that_metrics_would_confuse_are_refused(
    name: str, code: ErrorCode
) -> None:
    assert refusal_of(lambda: check_new_name(name, {"a.b"})) is code


@pytest.mark.parametrize("count", [1, 1000])
def test_a_name_that_metrics_confuse_is_found_among_few_topics_and_many(count: int) -> None:
    topics = {"a.b_c", *(f"t{one}" for one in range(count))}
    assert {same_in_metrics(one, topics) for one in ("a_b_c", "a.b.c", "a_b.c")} == {"a.b_c"}
    assert {same_in_metrics(one, topics) for one in ("abc", "a_b", "a_b_c_", "t0")} == {None}


# Counts and replicas


def test_minus_one_is_the_default() -> None:
    assert assigned(NewTopic(name="a")) == dict.fromkeys(range(7), (1,))
    new = NewTopic(name="a", partition_count=2, replication_factor=1)
    assert assigned(new) == {0: (1,), 1: (1,)}
    three = Defaults(partition_count=1, replication_factor=3)
    assert set(dict(new_placing(NewTopic(name="a"), THREE, three, lambda: 4))[0]) == {1, 2, 3}


@pytest.mark.parametrize("count", [0, -2, MAX_PARTITION_COUNT + 1])
def test_impossible_partition_counts_are_refused(count: int) -> None:
    new = NewTopic(name="a", partition_count=count)
    assert refusal_of(lambda: assigned(new)) is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_one_broker_holds_one_replica(factor: int) -> None:
    new = NewTopic(name="a", partition_count=1, replication_factor=factor)
    assert refusal_of(lambda: assigned(new)) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_chance_decides_who_leads_first() -> None:
    new = NewTopic(name="a", partition_count=1)
    leaders = {dict(new_placing(new, THREE, DEFAULTS, lambda one=one: one))[0] for one in range(3)}
    assert leaders == {(1,), (2,), (3,)}


def test_replicas_that_are_assigned_decide_the_count() -> None:
    new = NewTopic(name="a", assignments={0: [1], 1: [1]})
    assert assigned(new) == {0: (1,), 1: (1,)}


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic(name="a", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="a", assignments={0: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="a", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="a", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="a", partition_count=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
    ],
)
def test_replicas_that_cannot_be_are_refused(new: NewTopic, code: ErrorCode) -> None:
    assert refusal_of(lambda: assigned(new)) is code


def test_added_partitions_have_as_many_replicas_as_the_others() -> None:
    grown = dict(added_placing(TopicGrowth(name="t", partition_count=4), topic(2, 2, 3), THREE))
    assert sorted(grown) == [2, 3]
    assert {len(set(replicas)) for replicas in grown.values()} == {2}


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (MAX_PARTITION_COUNT + 1, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[1, 2], [2, 3]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_growth_that_cannot_be_is_refused(
    count: int, assignments: list[list[int]] | None, code: ErrorCode
) -> None:
    growth = TopicGrowth(name="t", partition_count=count, assignments=assignments)
    assert refusal_of(lambda: dict(added_placing(growth, topic(2, 1, 2), THREE))) is code


def test_an_unknown_topic_and_an_internal_one_are_not_grown() -> None:
    growth = TopicGrowth(name="__consumer_offsets", partition_count=4)
    internal = topic(1, 1, name=growth.name)
    codes = [
        refusal_of(lambda one=one: dict(added_placing(growth, one, ONE)))
        for one in (None, internal)
    ]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION]


# Settings


def test_overrides_change_the_defaults_and_nothing_else() -> None:
    config = topic_config(TopicConfig(segment_bytes=1000), {"retention.ms": "5"})
    assert config == TopicConfig(segment_bytes=1000, retention_ms=5)


def test_an_internal_topic_stays_compacted() -> None:
    name, defaults = "__consumer_offsets", TopicConfig()
    segments = {"segment.bytes": "1000"}
    compact = {"cleanup.policy": "compact"}
    assert changed_settings(name, defaults, {}, segments) == {**segments, **compact}
    deleted = {"cleanup.policy": "compact,delete"}
    refused = refusal_of(lambda: changed_settings(name, defaults, compact, deleted))
    assert refused is ErrorCode.INVALID_CONFIG
    assert changed_settings("t", defaults, compact, deleted) == deleted


@pytest.mark.parametrize(
    "overrides", [{"no.such": "1"}, {"retention.ms": "soon"}, {"retention.ms": None}]
)
def test_settings_that_make_no_sense_are_an_invalid_config(
    overrides: dict[str, str | None],
) -> None:
    assert refusal_of(lambda: topic_config(TopicConfig(), overrides)) is ErrorCode.INVALID_CONFIG
