"""Listeners and limits of connections that a client changes while the server runs (KIP-226)."""

import socket
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.serving import WireClient, open_broker, serving

BROKER = 4
VERSIONS = ApiVersionsRequest()


def altered(client: WireClient, broker: str = "1", **values: str) -> tuple[int, str | None]:
    """Alters settings, whose names have `_` for `.`; the code and the message."""
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=configs)
    (result,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return result.error_code, result.error_message


def has_answer(client: WireClient) -> bool:
    client.socket.setblocking(False)
    try:
        return bool(client.socket.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        client.socket.settimeout(PATIENCE_S)


def advertised(client: WireClient) -> tuple[str, int]:
    (broker,) = client.ask(MetadataRequest(topics=[]), 12).brokers
    return broker.host, broker.port


def test_a_limit_for_each_host_holds_as_soon_as_it_is_set(tmp_path: Path) -> None:
    with (
        serving(open_broker(tmp_path / "data")) as server,
        WireClient(server.address) as one,
        WireClient(server.address) as two,
    ):
        assert two.ask(VERSIONS, 0).error_code == 0
        assert altered(one, max_connections_per_ip="2") == (0, None)
        with WireClient(server.address) as third:
            assert third.receive_frame() is None
        assert altered(one, max_connections_per_ip_overrides="127.0.0.1:3") == (0, None)
        with WireClient(server.address) as third:
            assert third.ask(VERSIONS, 0).error_code == 0


def test_those_who_waited_come_in_when_more_are_allowed(tmp_path: Path) -> None:
    with (
        serving(open_broker(tmp_path / "data", max_connections="1")) as server,
        WireClient(server.address) as one,
    ):
        assert one.ask(VERSIONS, 0).error_code == 0
        with WireClient(server.address) as two:
            assert altered(one, max_connections="2") == (0, None)
            assert two.ask(VERSIONS, 0).error_code == 0


class SetClock:
    """Stands still until it is set."""

    monotonic = 1_000_000.0

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> float:
        return self.monotonic


@pytest.mark.parametrize("name", ["", "listener.name.plaintext."])
def test_connections_that_come_too_fast_wait_and_are_not_refused(name: str, tmp_path: Path) -> None:
    clock = SetClock()
    with (
        serving(open_broker(tmp_path / "data", quota_window_num="2"), clock) as server,
        WireClient(server.address) as one,
    ):
        rate = {f"{name}max.connection.creation.rate": "1"}
        assert altered(one, **rate) == (0, None)
        with WireClient(server.address) as two, WireClient(server.address) as three:
            assert two.ask(VERSIONS, 0).error_code == 0
            three.send(VERSIONS, 0)
            assert one.ask(VERSIONS, 0).error_code == 0
            assert not has_answer(three)
            clock.monotonic += 1000
            server.wake()
            assert three.receive(ApiKey.API_VERSIONS, 0).error_code == 0


def test_a_rate_that_is_none_is_refused(tmp_path: Path) -> None:
    with serving(open_broker(tmp_path / "data")) as server, WireClient(server.address) as client:
        for name in ("", "listener.name.plaintext."):
            code, _ = altered(client, **{f"{name}max.connection.creation.rate": "-1"})
            assert code == ErrorCode.INVALID_REQUEST


def test_a_listener_is_added_and_taken_away(tmp_path: Path) -> None:
    added = ("127.0.0.1", free_port())
    names = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"
    first = "PLAINTEXT://127.0.0.1:9092"
    both = f"{first},EXTRA://127.0.0.1:{added[1]}"
    with (
        serving(open_broker(tmp_path / "data")) as server,
        WireClient(server.address) as client,
    ):
        values = {"listener_security_protocol_map": names, "listeners": both}
        assert altered(client, **values) == (0, None)
        with WireClient(added) as other:
            assert advertised(other) == added
            assert altered(client, listeners=first) == (0, None)
            assert other.receive_frame() is None
        with pytest.raises(OSError):
            WireClient(added)
        assert advertised(client) == server.address


def test_where_clients_are_sent_changes_for_those_who_are_in_too(tmp_path: Path) -> None:
    with (
        serving(open_broker(tmp_path / "data")) as server,
        WireClient(server.address) as client,
    ):
        elsewhere = "PLAINTEXT://broker.invalid:9999"
        assert altered(client, advertised_listeners=elsewhere) == (0, None)
        assert advertised(client) == ("broker.invalid", 9999)
        with WireClient(server.address) as other:
            assert advertised(other) == ("broker.invalid", 9999)


@pytest.mark.parametrize(
    ("broker", "values", "message"),
    [
        ("", {"listeners": "PLAINTEXT://127.0.0.1:9"}, "at default cluster level: [listeners]"),
        ("1", {"listeners": "SSL://127.0.0.1:9"}, "needs a key and a certificate"),
        ("1", {"listeners": "nonsense"}, "must look like PLAINTEXT://host:9092"),
        ("1", {"max_connections_per_ip_overrides": "here:x"}, "must be an address and a count"),
    ],
)
def test_what_cannot_be_listened_on_or_counted_is_refused(
    tmp_path: Path, broker: str, values: dict[str, str], message: str
) -> None:
    with (
        serving(open_broker(tmp_path / "data")) as server,
        WireClient(server.address) as client,
    ):
        code, told = altered(client, broker, **values)
        assert code == ErrorCode.INVALID_REQUEST
        assert message in (told or "")
