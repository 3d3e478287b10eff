"""The metadata log of Kafka's controllers, followed as they were recorded to send it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise

import pytest
from click.testing import CliRunner, Result

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import CorruptionError, RefusalError, UnreachableError
from ottla.base.partitions import CLUSTER_METADATA_ID
from ottla.cli.main import cli
from ottla.client.administration.metadata_log import MetadataLog
from ottla.client.connecting.cluster import DEFAULT_SETTINGS, SocketTransport
from ottla.codec.primitives import Output
from ottla.metadata.following import Entry
from ottla.metadata.image import MetadataImage
from ottla.metadata.log_files import read_log
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_response, read_request_header
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tests.golden.exchanges import RECORDED, Exchange, exchanges, whole
from tests.golden.recorded_controllers import DYNAMIC, STATIC, RecordedController
from tests.golden.test_golden_kraft_logs import RECORDED as KRAFT
from tests.golden.test_golden_kraft_logs import comparable, segment_of, until
from tests.support.ports import free_port

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges (OTTLA_SHARED)")

TRANSPORT = SocketTransport(DEFAULT_SETTINGS)
LEADERS_LOG = KRAFT / "logdirs" / "controller-102" / "__cluster_metadata-0"
BROKER_3_BEGINS_ANEW = 4028
"""The line where a broker without a metadata log asks for one, and gets a snapshot."""
BROKER_1_HEARS_OF_NO_MAJORITY = 3094
"""The line from where on a broker gets twelve records that are never committed."""
MOST_LINES = 1500
REFUSED = 31
NOTHING = -1


@cache
def fetches(name: str, sender: int, first_line: int = 0) -> tuple[Exchange, ...]:
    """What a node asked of the metadata log, and was answered."""
    keys = (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)
    lines = exchanges(name)[max(first_line - 1, 0) :][:MOST_LINES]
    found = [one for one in lines if one.sender == sender and one.response_frame is not None]
    return tuple(one for one in found if one.header.api_key in keys and is_of_metadata(one))


def is_of_metadata(one: Exchange) -> bool:
    if one.header.api_key == ApiKey.FETCH_SNAPSHOT:
        return True
    return [x.topic_id for x in one.request.topics] == [CLUSTER_METADATA_ID]


def is_diverging(one: Exchange) -> bool:
    return (
        one.header.api_key == ApiKey.FETCH
        and one.response.responses[0].partitions[0].diverging_epoch is not None
    )


class RecordedQuorum(RecordedController):
    """Plays what a follower was sent, by the offsets that are asked for; then it refuses."""

    def __init__(self, name: str, exchanges: Sequence[Exchange], damages: int = NOTHING) -> None:
        """`damages` is an offset: in the batch with it a bit is turned."""
        self._left = exchanges
        self._damages = damages
        self.asked: list[FetchRequest] = []
        super().__init__(name, {})

    def frame_for(self, header: RequestHeader, asked: bytes) -> bytes | None:
        if header.api_key == ApiKey.FETCH:
            return self._fetched(header, asked)
        if header.api_key == ApiKey.FETCH_SNAPSHOT:
            return self._next(header.api_key)
        return super().frame_for(header, asked)

    def _fetched(self, header: RequestHeader, asked: bytes) -> bytes:
        request = whole(FetchRequest, header.api_version, asked, read_request_header(asked)[1])
        assert isinstance(request, FetchRequest)
        self.asked.append(request)
        frame = self._next(header.api_key, request.topics[0].partitions[0].fetch_offset)
        if frame is not None:
            return frame
        output = Output()
        encode_response(header, FetchResponse(error_code=REFUSED), output)
        return output.read_all()[4:]

    def _next(self, api_key: int, offset: int | None = None) -> bytes | None:
        for place, one in enumerate(self._left):
            if one.header.api_key == api_key and (offset is None or offset == offset_of(one)):
                self._left = self._left[place + 1 :]
                assert one.response_frame is not None
                frame = bytearray(one.response_frame)
                if offset is not None and offset == self._damages:
                    records = one.response.responses[0].partitions[0].records
                    frame[frame.index(records) + len(records) - 1] ^= 1
                return bytes(frame)
        return None


def offset_of(one: Exchange) -> int:
    offset: int = one.request.topics[0].partitions[0].fetch_offset
    return offset


@contextmanager
def quorum(
    name: str, exchanges: Sequence[Exchange], damages: int = NOTHING
) -> Iterator[RecordedQuorum]:
    server = RecordedQuorum(name, exchanges, damages)
    try:
        yield server
    finally:
        server.close()


def metadata_log(*addresses: tuple[str, int], said: list[str] | None = None) -> MetadataLog:
    said = [] if said is None else said
    return MetadataLog(
        addresses, DEFAULT_SETTINGS, TRANSPORT, sleep=lambda _: None, remark=said.append
    )


def followed(log: MetadataLog) -> list[Entry]:
    """All that is committed until the server refuses to say more."""
    found: list[Entry] = []
    try:
        for entries in log.changes():
            found += entries
    except RefusalError as error:
        assert "CLUSTER_AUTHORIZATION_FAILED" in str(error)  # noqa: PT017  # and what was found
    return found


def image_until(offset: int) -> MetadataImage:
    log = until(segment_of(LEADERS_LOG), offset)
    return read_log(None, [log], may_be_torn=False).image()


def test_who_begins_with_a_snapshot_ends_with_the_image_of_the_controllers() -> None:
    with (
        quorum(STATIC, fetches(STATIC, 3, BROKER_3_BEGINS_ANEW)) as one,
        metadata_log(one.address) as log,
    ):
        found = followed(log)
    image = log.follower.image()
    assert (log.leader, log.epoch) == (102, 9)
    assert image.end_offset > 900
    assert comparable(image) == comparable(image_until(image.end_offset))
    offsets = [one.offset for one in found if one.offset >= 643]
    assert offsets == [*range(643, image.end_offset)]
    partition = one.asked[0].topics[0].partitions[0]
    assert one.asked[0].replica_state is None
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (0, 0)


def test_what_was_never_committed_is_not_followed() -> None:
    """Of epoch 6 the leader had twelve records alone, which the next one does not have. That was
    recorded of the controller 101, and of this broker what was before and after it.
    """
    said: list[str] = []
    told_101 = [x for x in fetches(STATIC, 101, BROKER_1_HEARS_OF_NO_MAJORITY) if is_diverging(x)]
    asked = fetches(STATIC, 1, BROKER_1_HEARS_OF_NO_MAJORITY)
    assert len(told_101) == 1
    with (
        quorum(STATIC, sorted([*asked, *told_101], key=lambda x: x.line)) as one,
        metadata_log(one.address, said=said) as log,
    ):
        begun = until(segment_of(LEADERS_LOG), 559)
        log.follower.take_records("a file", begun.content, 559)
        found = followed(log)
    assert {x.topics[0].partitions[0].fetch_offset for x in one.asked} >= {559, 571}
    assert [x.offset for x in found] == [*range(559, log.follower.committed_offset)]
    assert {x.epoch for x in found} == {9}
    image = log.follower.image()
    assert comparable(image) == comparable(image_until(image.end_offset))
    assert "controller 102 leads epoch 9" in said


def test_a_dynamic_quorum_is_followed_from_its_first_record() -> None:
    with (
        quorum(DYNAMIC, fetches(DYNAMIC, 1)) as one,
        metadata_log(one.address) as log,
    ):
        found = followed(log)
    assert [x.offset for x in found] == [*range(log.follower.committed_offset)]
    assert {x.epoch for x in found} == {1, 3, 5}
    assert log.follower.image().voters == {101, 103}
    assert set(log.follower.image().topics) >= {"one", "two", "three"}


def test_whoever_does_not_lead_is_passed_over() -> None:
    """A controller that answers NOT_LEADER_OR_FOLLOWER tells its epoch."""
    asked = fetches(STATIC, 1)
    (other, *_) = [x for x in asked if x.response.responses[0].partitions[0].error_code]
    with (
        quorum(STATIC, [other]) as one,
        quorum(STATIC, [x for x in asked if x is not other]) as leader,
        metadata_log(one.address, leader.address) as log,
    ):
        for _ in log.until_current():
            break
    assert (len(one.asked), len(leader.asked)) == (1, 1)
    assert leader.asked[0].topics[0].partitions[0].current_leader_epoch == 1


class ReelectedController(RecordedQuorum):
    """Leads an epoch that the first fetch does not know, and says so."""

    def frame_for(self, header: RequestHeader, asked: bytes) -> bytes | None:
        if header.api_key != ApiKey.FETCH or self.asked:
            return super().frame_for(header, asked)
        super().frame_for(header, asked)
        partition = PartitionData(
            error_code=ErrorCode.FENCED_LEADER_EPOCH,
            high_watermark=-1,
            current_leader=LeaderIdAndEpoch(leader_id=101, leader_epoch=1),
        )
        topic = FetchableTopicResponse(topic_id=CLUSTER_METADATA_ID, partitions=[partition])
        places = [NodeEndpoint(node_id=101, host="127.0.0.1", port=self.port)]
        output = Output()
        encode_response(header, FetchResponse(responses=[topic], node_endpoints=places), output)
        return output.read_all()[4:]


def test_a_leader_that_tells_its_epoch_is_asked_again_at_once() -> None:
    asked = fetches(DYNAMIC, 1)
    (led, *_) = [x for x in asked if not x.response.responses[0].partitions[0].error_code]
    one = ReelectedController(DYNAMIC, [led, led])
    said: list[str] = []
    try:
        with metadata_log(one.address, said=said) as log:
            assert next(log.changes())
    finally:
        one.close()
    epochs = [x.topics[0].partitions[0].current_leader_epoch for x in one.asked]
    assert (epochs, said) == ([0, 1], [])


def test_damaged_records_are_named_with_their_place() -> None:
    with (
        quorum(DYNAMIC, fetches(DYNAMIC, 1), damages=16) as one,
        metadata_log(one.address) as log,
        pytest.raises(CorruptionError, match=r"__cluster_metadata from offset 16 at byte 0: .*CRC"),
    ):
        list(log.changes())
    assert log.follower.committed_offset == 16


def test_whoever_does_not_answer_or_wants_a_login_is_named() -> None:
    with metadata_log(("127.0.0.1", free_port())) as log, pytest.raises(UnreachableError):
        next(log.changes())
    closing = RecordedController(STATIC, {})
    with metadata_log(closing.address) as log, pytest.raises(UnreachableError, match="security"):
        next(log.changes())
    closing.close()


# The command


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["metadata", "follow", *words])


def test_the_command_prints_a_line_for_each_change_until_it_is_refused() -> None:
    with quorum(STATIC, fetches(STATIC, 3, BROKER_3_BEGINS_ANEW)) as one:
        result = run(f"127.0.0.1:{one.port}")
    assert result.exit_code == 1
    assert "controller 102 leads epoch 9, committed to offset" in result.stderr
    assert "ottla: 127.0.0.1" in result.stderr.splitlines()[-1]
    lines = result.stdout.splitlines()
    assert len(lines) > 50
    assert "NoOp" not in result.stdout
    changes = [line for line in lines if "PartitionChangeRecord(" in line]
    assert changes
    offsets = [int(line.split()[0]) for line in lines]
    assert all(a < b for a, b in pairwise(offsets))


def test_the_command_prints_the_image_once_without_keys() -> None:
    with quorum(STATIC, fetches(STATIC, 3, BROKER_3_BEGINS_ANEW)) as one:
        result = run(f"127.0.0.1:{one.port}", "--once", "--json")
    assert (result.exit_code, result.exception) == (0, None)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    image = image_until(737)
    topics = {one["fields"]["name"] for one in found if one["type"] == "TopicRecord"}
    assert topics == set(image.topics)
    users = [one["fields"] for one in found if one["type"] == "UserScramCredentialRecord"]
    assert len(users) == len(image.credentials)
    assert {one["stored_key"] for one in users} <= {"[hidden]"}


def test_a_broker_is_told_from_a_controller() -> None:
    """Its answer to ApiVersions is without FetchSnapshot; it knows where controllers are."""
    of_broker = next(
        one
        for one in exchanges(STATIC)
        if one.receiver == 3 and one.header.api_key == ApiKey.API_VERSIONS
    )
    described = [x for x in exchanges(DYNAMIC) if x.header.api_key == ApiKey.DESCRIBE_QUORUM]
    frames = {ApiKey.DESCRIBE_QUORUM: described[-1].response_frame}
    server = RecordedController(STATIC, frames, of_broker)
    result = run(f"127.0.0.1:{server.port}")
    server.close()
    assert result.exit_code == 1
    hint = "is a broker, without a metadata log; name a controller: localhost:26983, localhost:"
    assert hint in result.stderr
    assert len(result.stderr.splitlines()) == 1
