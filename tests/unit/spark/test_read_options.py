"""What Spark's own Kafka source ignores is ignored here too, with a warning."""

import logging
from collections.abc import Mapping

import pytest

from ottla.base.errors import UserError
from ottla.sources.options import ReadOptions
from ottla.spark.read_options import batch_options, schema_options, stream_options

FILES = {"path": "data", "subscribe": "orders"}
BROKER = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_a_batch_ignores_the_limits_of_a_stream(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = batch_options({**FILES, name: "10"})
    assert found == batch_options(FILES)
    assert warnings_of(caplog) == [f"option {name} has no effect in a batch"]
    assert stream_options({**FILES, name: "10"}) != stream_options(FILES)


def test_a_stream_ignores_an_end_by_time_and_refuses_one_by_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert stream_options({**FILES, "endingTimestamp": "5"}).stream_start
    assert warnings_of(caplog) == ["option endingTimestamp has no effect in a stream"]
    with pytest.raises(UserError, match="a stream has no end: leave out option endingOffsets"):
        _ = stream_options({**FILES, "endingOffsets": "latest"}).stream_start


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"endingOffset": "latest"}, "option endingoffset is unknown, and has no effect; did you "
         "mean endingOffsets?"),
        ({"xyz": "red"}, "option xyz is unknown, and has no effect"),
        ({"kafka.a.plugin": "x"}, "option kafka.a.plugin is unknown, and has no effect"),
        ({"kafka.max.poll.records": "5"}, "option kafka.max.poll.records has no effect here"),
    ],
)  # fmt: skip
def test_an_unknown_option_is_named_and_left_out(
    given: Mapping[str, str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    found: ReadOptions = schema_options({**BROKER, **given})
    assert found == schema_options(BROKER)
    assert words in warnings_of(caplog)


def test_a_prefix_beside_a_group_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    batch_options({**BROKER, "kafka.group.id": "a", "groupIdPrefix": "b"})
    assert warnings_of(caplog) == ["option groupIdPrefix has no effect beside kafka.group.id"]


@pytest.mark.parametrize("name", ["kafka.ssl.cipher.suites", "kafka.sasl.kerberos.service.name"])
def test_an_unknown_setting_of_security_is_kept_and_refused_by_the_client(name: str) -> None:
    assert name.removeprefix("kafka.") in batch_options({**BROKER, name: "x"}).client


def test_what_spark_refuses_is_refused() -> None:
    with pytest.raises(UserError, match=r"kafka.auto.offset.reset is not for this source"):
        batch_options({**BROKER, "kafka.auto.offset.reset": "earliest"})
