"""Which request versions brokers send each other."""

import pytest

from ottla.config.inter_broker_version import LATEST, parse_inter_broker_version, step_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.inter_broker_requests import SENT_VERSIONS, sent_version
from ottla.protocol.messages import request_class

FOR_3_9 = {
    ApiKey.LEADER_AND_ISR: 7,
    ApiKey.STOP_REPLICA: 4,
    ApiKey.UPDATE_METADATA: 8,
    ApiKey.CONTROLLED_SHUTDOWN: 3,
    ApiKey.FETCH: 17,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.ALTER_PARTITION: 3,
    ApiKey.ALLOCATE_PRODUCER_IDS: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.LIST_OFFSETS: 9,
}
FOR_2_4 = {
    ApiKey.LEADER_AND_ISR: 4,
    ApiKey.STOP_REPLICA: 2,
    ApiKey.UPDATE_METADATA: 6,
    ApiKey.CONTROLLED_SHUTDOWN: 3,
    ApiKey.FETCH: 11,
    ApiKey.WRITE_TXN_MARKERS: 0,
    ApiKey.ALTER_PARTITION: None,
    ApiKey.ALLOCATE_PRODUCER_IDS: None,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 3,
    ApiKey.LIST_OFFSETS: 5,
}
FOR_0_10_0 = {
    ApiKey.LEADER_AND_ISR: 0,
    ApiKey.STOP_REPLICA: 0,
    ApiKey.UPDATE_METADATA: 2,
    ApiKey.CONTROLLED_SHUTDOWN: 1,
    ApiKey.FETCH: 2,
    ApiKey.WRITE_TXN_MARKERS: 0,
    ApiKey.ALTER_PARTITION: None,
    ApiKey.ALLOCATE_PRODUCER_IDS: None,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: None,
    ApiKey.LIST_OFFSETS: 0,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3.9", FOR_3_9), ("2.4", FOR_2_4), ("2.4.1", FOR_2_4), ("0.10.0-IV1", FOR_0_10_0)],
)
def test_the_cluster_s_version_says_which_request_versions_are_sent(
    text: str, expected: dict[ApiKey, int | None]
) -> None:
    version = parse_inter_broker_version(text)
    assert {api_key: sent_version(api_key, version) for api_key in SENT_VERSIONS} == expected


def test_every_version_that_is_sent_is_declared_and_they_only_rise() -> None:
    for api_key, versions in SENT_VERSIONS.items():
        assert list(versions.values()) == sorted(set(versions.values()))
        assert list(versions) == sorted(versions, key=step_of)
        assert all(version in request_class(api_key).VERSIONS for version in versions.values())


@pytest.mark.parametrize("text", ["0.9.0", "4.0", "2.4-IV2", "never"])
def test_a_version_without_zookeeper_or_unknown_to_kafka_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"Version {text} is not"):
        parse_inter_broker_version(text)


def test_a_version_says_what_its_brokers_can_do() -> None:
    old, young = parse_inter_broker_version("2.4"), LATEST
    for what in (
        "truncates_on_fetch",
        "has_features",
        "has_alter_partition",
        "has_topic_ids",
        "has_producer_id_requests",
        "has_leader_recovery",
    ):
        assert (getattr(old, what), getattr(young, what)) == (False, True)
