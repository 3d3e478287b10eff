"""Registrations of brokers."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.deciding.node_rules import check_epoch
from ottla.metadata.deciding.registration import (
    RegistrationRequest,
    register_broker,
    unregister_broker,
)
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import RegisterBrokerRecord
from tests.support.kraft_images import CLUSTER, a_broker, an_id, an_image, ranges, then

ELR = {"eligible_leader_replicas_version": 1}


def registered(
    image: MetadataImage,
    broker: BrokerRegistration,
    *,
    is_live: bool = False,
    end_offset: int = 50,
    **changes: Any,
) -> tuple[list[VersionedRecord], int]:
    request = RegistrationRequest(1, CLUSTER, broker)._replace(**changes)
    return register_broker(image, CLUSTER, request, end_offset=end_offset, is_live=is_live)


def refusal(image: MetadataImage, broker: BrokerRegistration, **how: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        registered(image, broker, **how)
    return refused.value


# Who may register


def test_a_new_broker_is_fenced_and_its_epoch_is_the_offset_of_its_record() -> None:
    records, epoch = registered(an_image(), a_broker(rack="r"))
    known = then(an_image(), records).brokers[1]
    assert epoch == 50
    assert known == a_broker(rack="r", epoch=50, is_fenced=True)


@pytest.mark.parametrize(("level", "version"), [(7, 1), (8, 2), (16, 2), (17, 3), (30, 4)])
def test_the_record_has_the_version_of_the_level(level: int, version: int) -> None:
    records, _ = registered(an_image(level), a_broker(cordoned=(an_id(201),)))
    assert [one for _, one in records] == [version]
    known = then(an_image(level), records).brokers[1]
    assert bool(known.directories) == (level >= 17)
    assert bool(known.cordoned) == (level >= 30)


def test_a_broker_of_another_cluster_is_refused() -> None:
    error = refusal(an_image(), a_broker(), cluster_id="other")
    assert error.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert error.message == "Expected cluster ID cluster, but got cluster ID other"


def test_a_second_process_with_the_id_of_a_live_broker_is_refused() -> None:
    image = an_image(brokers={1: a_broker(epoch=7)})
    error = refusal(image, a_broker(incarnation_id=an_id(9)), is_live=True)
    assert error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    _, epoch = registered(image, a_broker(incarnation_id=an_id(9)))
    assert epoch == 50


def test_a_broker_that_shuts_down_may_be_back_before_its_session_ends() -> None:
    image = an_image(brokers={1: a_broker(epoch=7, is_shutting_down=True)})
    records, epoch = registered(image, a_broker(incarnation_id=an_id(9)), is_live=True)
    known = then(image, records).brokers[1]
    assert epoch == known.epoch == 50
    assert not known.is_shutting_down


@pytest.mark.parametrize("is_fenced", [True, False])
@pytest.mark.parametrize("is_live", [True, False])
def test_a_registration_that_is_repeated_changes_nothing(is_fenced: bool, is_live: bool) -> None:
    image = an_image(brokers={1: a_broker(epoch=7, is_fenced=is_fenced)})
    assert registered(image, a_broker(), is_live=is_live) == ([], 7)


def test_a_repeated_registration_that_says_something_else_is_recorded_with_the_same_epoch() -> None:
    image = an_image(brokers={1: a_broker(epoch=7)}, partitions={0: (1,)})
    records, epoch = registered(image, a_broker(rack="new"), is_live=True)
    after = then(image, records)
    assert epoch == 7
    assert after.brokers[1] == a_broker(rack="new", epoch=7)
    assert after.topics == image.topics


# What a broker says of itself


@pytest.mark.parametrize(("supported", "name", "level"), [
    ({METADATA_VERSION: (7, 24)}, METADATA_VERSION, 25),
    ({METADATA_VERSION: (26, 33)}, METADATA_VERSION, 25),
    ({}, METADATA_VERSION, 25),
    ({METADATA_VERSION: (7, 25)}, "group.version", 1),
])  # fmt: skip
def test_a_broker_that_does_not_know_the_levels_of_the_cluster_is_refused_in_a_line(
    supported: dict[str, tuple[int, int]], name: str, level: int
) -> None:
    error = refusal(an_image(25, group_version=1), a_broker(features=ranges(supported)))
    assert error.code is ErrorCode.UNSUPPORTED_VERSION
    assert error.message.startswith(
        f"Unable to register because the broker does not support finalized version {level} of "
        f"{name}. The broker wants a version between "
    )


A, B = an_id(201), an_id(202)


@pytest.mark.parametrize(("directories", "reason"), [
    ((), "No directories specified in request"),
    ((A, A), "Duplicate directory ID in request"),
    ((A, ZERO_UUID), "Reserved directory ID in request"),
    ((A, Uuid(bytes(15) + b"\x63")), "Reserved directory ID in request"),
    ((A, B), "Broker 2 is already registered with directory"),
])  # fmt: skip
def test_directories_have_ids_of_their_own(directories: tuple[Uuid, ...], reason: str) -> None:
    image = an_image(brokers={2: a_broker(2, directories=(B,))})
    error = refusal(image, a_broker(directories=directories))
    assert error.code is ErrorCode.INVALID_REGISTRATION
    assert error.message.startswith(reason)


def test_before_levels_with_directories_none_are_asked_for() -> None:
    assert registered(an_image(16), a_broker(directories=()))[1] == 50


LISTENER = Endpoint(listener="L", host="h", port=1, security_protocol="SSL")


@pytest.mark.parametrize("endpoints", [
    (),
    (LISTENER, LISTENER),
    (replace(LISTENER, listener=""),),
    (replace(LISTENER, host=""),),
    (replace(LISTENER, port=0),),
    (replace(LISTENER, port=1 << 16),),
    (replace(LISTENER, security_protocol="9"),),
])  # fmt: skip
def test_a_broker_that_cannot_be_reached_is_refused(endpoints: tuple[Endpoint, ...]) -> None:
    error = refusal(an_image(), a_broker(endpoints=endpoints))
    assert error.code is ErrorCode.INVALID_REGISTRATION


# What becomes of its partitions


def three(**features: int) -> MetadataImage:
    """A partition on three brokers, led by the first."""
    brokers = {number: a_broker(number, epoch=number) for number in (1, 2, 3)}
    return an_image(brokers=brokers, partitions={0: (1, 2, 3)}, **features)


def test_the_earlier_incarnation_leads_nothing_any_more() -> None:
    records, _ = registered(three(), a_broker(incarnation_id=an_id(9)))
    first = records[0][0]
    assert isinstance(first, RegisterBrokerRecord)
    partition = then(three(), records).topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)


@pytest.mark.parametrize(("previous_epoch", "elr"), [(1, (1,)), (-1, ()), (7, ())])
def test_a_broker_that_did_not_stop_cleanly_is_no_eligible_leader(
    previous_epoch: int, elr: tuple[int, ...]
) -> None:
    image = three(**ELR).with_configs(4, {"": {"min.insync.replicas": "3"}})
    again = a_broker(incarnation_id=an_id(9))
    records, _ = registered(image, again, previous_epoch=previous_epoch)
    partition = then(image, records).topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr) == (2, (2, 3), elr)


def test_the_last_replica_in_sync_is_waited_for_unless_it_may_have_lost_records() -> None:
    image = an_image(brokers={1: a_broker(epoch=1)}, partitions={0: (1,)})
    again = a_broker(incarnation_id=an_id(9))
    partition = then(image, registered(image, again)[0]).topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (-1, (1,))
    image = an_image(brokers={1: a_broker(epoch=1)}, partitions={0: (1,)}, **ELR)
    partition = then(image, registered(image, again)[0]).topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.last_known_elr) == (-1, (), (1,))


def test_a_broker_that_was_unregistered_and_is_back_is_no_eligible_leader() -> None:
    image = three(**ELR).with_configs(4, {"": {"min.insync.replicas": "3"}})
    gone = then(image, unregister_broker(image, 1))
    assert gone.topics["t"].partitions[0].elr == (1,)
    back = then(gone, registered(gone, a_broker(incarnation_id=an_id(9)))[0])
    assert back.topics["t"].partitions[0].elr == ()


# Unregistering, and epochs


def test_a_broker_that_is_unregistered_leads_nothing_and_stays_a_replica() -> None:
    after = then(three(), unregister_broker(three(), 1))
    partition = after.topics["t"].partitions[0]
    assert sorted(after.brokers) == [2, 3]
    assert (partition.leader, partition.isr, partition.replicas) == (2, (2, 3), (1, 2, 3))


def test_a_broker_that_is_not_registered_cannot_be_unregistered() -> None:
    with pytest.raises(ApiError) as refused:
        unregister_broker(an_image(), 77)
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(("broker_id", "epoch"), [(4, 1), (1, 2), (1, 0)])
def test_a_request_with_another_epoch_than_the_registered_one_does_not_count(
    broker_id: int, epoch: int
) -> None:
    assert check_epoch(three(), 1, 1).epoch == 1
    with pytest.raises(ApiError) as refused:
        check_epoch(three(), broker_id, epoch)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
