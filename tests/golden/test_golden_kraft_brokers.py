"""What brokers and controllers asked Kafka's active controllers, answered again with the same."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import ApiError
from ottla.base.ids import parse_uuid
from ottla.codec.api_messages import encode_record
from ottla.metadata.brokers import BrokerRegistration, Endpoint, protocol_of
from ottla.metadata.deciding.controllers import ControllerRegistrationRequest, register_controller
from ottla.metadata.deciding.features import FeatureUpdate, Quorum, update_features
from ottla.metadata.deciding.heartbeats import BrokerSessions, HeartbeatRequest, heartbeat
from ottla.metadata.deciding.producer_ids import allocate_producer_ids
from ottla.metadata.deciding.registration import (
    RegistrationRequest,
    register_broker,
    unregister_broker,
)
from ottla.metadata.following import entries_of
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.replay import MetadataReplay
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from tests.golden.test_golden_kraft_logs import LOGS, RECORDED, segment_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LOGS, reason="needs the shared directories"),
]

LOG = RECORDED / "logdirs" / "controller-102" / "__cluster_metadata-0"
CLUSTER = "aRfVIbO9QOOzy4URXAsKQg"
SUPPORTED = {METADATA_VERSION: (1, 21), "kraft.version": (0, 1)}

Said = dict[str, Any]


class Moment:
    """The records of a batch as they were written, and the image before them."""

    def __init__(self, image: MetadataImage, offset: int, records: list[bytes]) -> None:
        self.image = image
        self.offset = offset
        self.records = records


@cache
def moments() -> list[Moment]:
    replay, found = MetadataReplay(), []
    for batch in iter_batches(segment_of(LOG).content):
        values = (
            [] if batch.is_control else [bytes(one.value or b"") for one in read_records(batch)]
        )
        found.append(Moment(replay.image(), batch.base_offset, values))
        for entry in () if batch.is_control else entries_of(batch):
            if entry.record is not None:
                replay.replay(entry.record)
        replay.end_offset = batch.next_offset
    return found


def moment_of(records: list[VersionedRecord], offset: int = 0) -> Moment | None:
    """Where Kafka's controller has written the first of these records, from an offset on."""
    first = encode_record(*records[0])
    return next((one for one in moments() if one.offset >= offset and first in one.records), None)


def image_after(offset: int) -> MetadataImage:
    return next(one.image for one in moments() if one.image.end_offset > offset)


@cache
def exchanges() -> list[Said]:
    path: Path = RECORDED / "exchanges-decoded.jsonl"
    lines = path.read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["response"] is not None]


def of(api: str) -> Iterator[tuple[Said, Said]]:
    """The requests of an API with their answers, those in envelopes among them."""
    for one in exchanges():
        inner = one.get("envelope") or one
        if inner["api"] == api and inner["response"] is not None:
            yield inner["request"], inner["response"]


def endpoints(request: Said) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            listener=one["name"],
            host=one["host"],
            port=one["port"],
            security_protocol=protocol_of(one["securityProtocol"]),
        )
        for one in request["listeners"]
    )


def features(request: Said) -> dict[str, dict[str, int]]:
    return {
        one["name"]: {
            "min_version": one["minSupportedVersion"],
            "max_version": one["maxSupportedVersion"],
        }
        for one in request["features"]
    }


def encoded(records: list[VersionedRecord]) -> list[bytes]:
    return [encode_record(record, version) for record, version in records]


def test_brokers_are_registered_by_the_same_records_with_the_same_epochs() -> None:
    refused, registered = 0, 0
    for request, response in of("BrokerRegistration"):
        asked = RegistrationRequest(
            request["brokerId"],
            request["clusterId"],
            BrokerRegistration(
                endpoints=endpoints(request),
                rack=request["rack"],
                features=features(request),
                incarnation_id=parse_uuid(request["incarnationId"]),
                directories=tuple(map(parse_uuid, request["logDirs"])),
            ),
            request["previousBrokerEpoch"],
        )
        epoch = response["brokerEpoch"]
        if response["errorCode"]:
            refused += 1
            with pytest.raises(ApiError) as error:
                register_broker(image_after(1150), CLUSTER, asked, end_offset=0, is_live=True)
            assert error.value.code == response["errorCode"]
            continue
        registered += 1
        (before,) = [one for one in moments() if one.offset == epoch]
        records, given = register_broker(
            before.image, CLUSTER, asked, end_offset=before.offset, is_live=False
        )
        assert given == epoch
        assert encoded(records) == before.records
    assert (registered, refused) == (7, 6)


def test_controllers_are_registered_by_the_same_records() -> None:
    count = 0
    for request, response in of("ControllerRegistration"):
        assert response["errorCode"] == 0
        asked = ControllerRegistrationRequest(
            request["controllerId"],
            parse_uuid(request["incarnationId"]),
            endpoints(request),
            features(request),
        )
        records = register_controller(image_after(5), asked)
        before = moment_of(records)
        assert before is not None
        assert encoded(register_controller(before.image, asked)) == before.records
        count += 1
    assert count == 5


def test_producer_ids_are_allocated_in_the_same_blocks() -> None:
    for request, response in of("AllocateProducerIds"):
        start, length = response["producerIdStart"], response["producerIdLen"]
        image = next(one.image for one in moments() if request["brokerId"] in one.image.brokers
                     and one.image.next_producer_id == start)  # fmt: skip
        records, block = allocate_producer_ids(image, request["brokerId"], request["brokerEpoch"])
        before = moment_of(records)
        assert before is not None
        assert (*block,) == (start, length)
        assert encoded(records) == before.records


def test_brokers_are_unregistered_by_the_same_records() -> None:
    codes = []
    for request, response in of("UnregisterBroker"):
        codes.append(response["errorCode"])
        before = next(one for one in moments() if one.offset == 990)
        if response["errorCode"]:
            with pytest.raises(ApiError) as error:
                unregister_broker(before.image, request["brokerId"])
            assert error.value.code == response["errorCode"]
        else:
            assert encoded(unregister_broker(before.image, request["brokerId"])) == before.records
    assert codes == [0, 102]


def test_features_are_updated_by_the_same_records_and_refused_with_the_same_words() -> None:
    codes = []
    for request, response in of("UpdateFeatures"):
        asked = [
            FeatureUpdate(one["feature"], one["maxVersionLevel"], one["upgradeType"])
            for one in request["featureUpdates"]
        ]
        before = next(one for one in moments() if one.offset == 462)
        quorum = Quorum(101, (101, 102, 103), supported=SUPPORTED)
        decision = update_features(
            before.image, quorum, asked, validate_only=request["validateOnly"]
        )
        for error, result in zip(decision.errors, response["results"], strict=True):
            codes.append(result["errorCode"])
            assert (error.code if error else 0) == result["errorCode"]
            assert (error.message if error else None) == result["errorMessage"]
        if request["validateOnly"]:
            assert not decision.records
        elif not any(decision.errors):
            assert encoded(decision.records) == before.records
    assert codes == [0, 0, 95]


def test_heartbeats_get_the_same_answers_by_the_same_records() -> None:
    """The image is the latest that the controller surely had: what a broker has said that it has
    read, and what an earlier heartbeat has changed.
    """
    sessions, known, answered, written = BrokerSessions(1e9), -1, 0, 0
    sessions.begin(moments()[0].image, 0, 0)
    for request, response in of("BrokerHeartbeat"):
        known = max(known, request["currentMetadataOffset"], request["brokerEpoch"])
        if response["errorCode"]:
            continue
        asked = HeartbeatRequest(
            request["brokerId"],
            request["brokerEpoch"],
            request["currentMetadataOffset"],
            request["wantFence"],
            request["wantShutDown"],
        )
        image = image_after(known)
        records, answer = heartbeat(image, sessions, asked, end_offset=image.end_offset, now_ms=0)
        names = ("isCaughtUp", "isFenced", "shouldShutDown")
        assert answer == tuple(response[one] for one in names), request
        answered += 1
        if records:
            written += 1
            before = moment_of(records, known)
            assert before is not None
            assert sorted(encoded(records)) == sorted(before.records)
            known = before.offset + len(records) - 1
    assert (answered, written) == (688, 18)
