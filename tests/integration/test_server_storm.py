"""A storm of seeded broken frames over many sockets: a good client is served in it, and after."""

import random
import socket
import struct
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.codec.primitives import Output
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.fuzz.targets import ANSWERED, framed, valid
from tests.support.patience import wait_until
from tests.support.serving import WireClient, open_broker, serving

SOCKET_COUNT = 60
FRAMES_PER_SOCKET = 15
WANTED = FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0)])
GOOD = (
    (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9),
    (FetchRequest(max_wait_ms=0, session_epoch=0, topics=[WANTED]), 12),
    (FetchRequest(max_wait_ms=0, session_epoch=1, session_id=1), 7),
    (ApiVersionsRequest(), 3),
)


def broken_frame(chance: random.Random) -> bytes:
    """Noise after a header, any request cut short, or a harmless one with bytes changed."""
    kind = chance.random()
    if kind < 0.3:
        key, version = chance.choice(list(ApiKey)), chance.randrange(-1, 19)
        payload = struct.pack(">hhi", key, version, 7) + b"\0\1x" + chance.randbytes(40)
    elif kind < 0.6:
        message, version = chance.choice(ANSWERED)
        data = bytes(framed(message, version, valid(message, version, chance)))
        payload = data[: chance.randrange(len(data))]
    else:
        request, version = chance.choice(GOOD)
        assert request.API_KEY is not None
        output = Output()
        encode_request(RequestHeader(request.API_KEY, version, 7, "storm"), request, output)
        changed = bytearray(output.read_all()[4:])
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        payload = bytes(changed[: chance.randrange(len(changed) + 1)])
    size = len(payload) if chance.random() < 0.9 else chance.randrange(-(1 << 31), 1 << 31)
    return struct.pack(">i", size) + payload


def rage(client: WireClient, chance: random.Random) -> None:
    try:
        for _ in range(FRAMES_PER_SOCKET):
            client.socket.sendall(broken_frame(chance))
    except OSError:
        return  # it was shown the door


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_a_storm_and_after_it_good_clients_are_served(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    with serving(open_broker(tmp_path / "data")) as server:
        clients = [WireClient(server.address) for _ in range(SOCKET_COUNT)]
        with WireClient(server.address) as steady:
            for client in clients:
                rage(client, chance)
                assert steady.ask(ApiVersionsRequest(), 0).error_code == 0
        with WireClient(server.address) as good:
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            # The storm may have asked for it too: while it is being made, clients ask again.
            wait_until(lambda: good.ask(wanted, 9).topics[0].error_code == ErrorCode.NONE)
        for client in clients:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.socket.close()
        with WireClient(server.address) as good:
            assert good.ask(ApiVersionsRequest(), 0).error_code == 0
    mistakes = [record for record in caplog.records if record.exc_info is not None]
    assert mistakes == [], "only our own errors"
