"""Settings that containers give a broker in its environment."""

import pytest

from ottla.cli.environment import setting_name, settings_in
from ottla.cli.serve.serve_command import listener_settings
from ottla.config.broker import broker_config
from ottla.config.listeners import client_listeners


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ("LOG_RETENTION_MS", "log.retention.ms"),
        ("A__B_C", "a_b.c"),
        ("A___B", "a-b"),
        ("NUM_PARTITIONS", "num.partitions"),
    ],
)
def test_names_are_read_as_by_kafkas_images(rest: str, name: str) -> None:
    assert setting_name(rest) == name


def test_ottlas_own_prefix_counts_before_kafkas() -> None:
    found = settings_in(
        {
            "KAFKA_NUM_PARTITIONS": "2",
            "OTTLA_NUM_PARTITIONS": "3",
            "OTTLA_DECOMPRESSED_MAX_BYTES": "1000000",
            "OTTLA_TARGET": "localhost:9092",
            "PATH": "/bin",
        }
    )
    assert found == {"num.partitions": "3", "ottla.decompressed.max.bytes": "1000000"}


def test_a_setting_that_no_broker_has_is_named_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert settings_in({"KAFKA_NO_SUCH": "1", "KAFKA_HEAP_OPTS": "-Xmx1G"}) == {}
    assert caplog.messages == ["KAFKA_NO_SUCH: there is no setting no.such"]


def test_several_addresses_are_listeners_with_names_of_their_own() -> None:
    given = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT"}
    values = {**given, **listener_settings([("127.0.0.1", 1), ("::1", 2)], given)}
    found = client_listeners(broker_config(values))
    assert [one.address for one in found] == [("127.0.0.1", 1), ("::1", 2)]
