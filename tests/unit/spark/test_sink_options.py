from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.codec.compression import Compression
from ottla.sources.client_options import logger, warn_without_effect
from ottla.spark.sink.sink_options import check_columns, parse_sink_options
from ottla.spark.worker import quieten

SERVERS = "kafka.bootstrap.servers"
PLACE = {SERVERS: "a:1, [::1]:9092"}


def test_options_are_kafkas_and_sparks_in_any_case() -> None:
    found = parse_sink_options(
        {
            "Kafka.Bootstrap.Servers": "a:1, [::1]:9092",
            "TOPIC": " orders ",
            "exactlyonce": "False",
            "kafka.compression.type": "zstd",
            "kafka.batch.size": "5000",
            "kafka.delivery.timeout.ms": "1500",
            "kafka.transaction.timeout.ms": "60000",
            "kafka.acks": "all",
            "kafka.security.protocol": "plaintext",
            "checkpointLocation": "/c",
        }
    )
    assert found.bootstrap == (("a", 1), ("::1", 9092))
    assert (found.topic, found.is_exactly_once) == ("orders", False)
    assert (found.compression, found.batch_size) == (Compression.ZSTD, 5000)
    assert found.client.patience_s == 1.5
    assert sum(found.client.pauses()) == pytest.approx(1.5)
    assert found.transaction_timeout_ms == 60_000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "d"}, "run `ottla serve --data-dir d`"),
        ({"topic": "t"}, "writes through a broker; give option kafka.bootstrap.servers"),
        ({SERVERS: "nowhere"}, "takes HOST:PORT, not 'nowhere'"),
        ({**PLACE, "topic": "a,b"}, "takes the name of one topic"),
        ({**PLACE, "exactlyOnce": "maybe"}, "takes true or false, not 'maybe'"),
        ({**PLACE, "kafka.acks": "2"}, "kafka.acks takes all, -1, 0, 1, not '2'"),
        ({**PLACE, "kafka.sasl.mechanism": "GSSAPI"}, "it is one of PLAIN, SCRAM-SHA-256"),
        ({**PLACE, "kafka.security.protocol": "SASL_SSL"}, "SASL_SSL needs sasl.mechanism"),
        ({**PLACE, "kafka.ssl.cipher.suites": "x"}, "has no option 'kafka.ssl.cipher.suites'"),
        ({**PLACE, "kafka.batch.size": "0"}, "kafka.batch.size takes a number above 0, not '0'"),
        ({**PLACE, "kafka.compression.type": "rar"}, "takes none, gzip, snappy, lz4, zstd, not"),
        ({**PLACE, "kafka.security.providers": "x"}, "no option 'kafka.security.providers'; of"),
        ({**PLACE, "kafka.sasl.login.class": "x"}, "of security there are kafka."),
        ({**PLACE, "kafka.transactional.id": "x"}, "the sink names its transactions itself"),
        ({**PLACE, "kafka.value.serializer": "x"}, "values are bytes; cast the column"),
    ],
)
def test_options_that_are_wrong_are_reported_with_the_fix(
    options: dict[str, str], told: str
) -> None:
    with pytest.raises(UserError) as raised:
        parse_sink_options(options)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ({"value": "int"}, "column value must be binary or string, not int; cast it"),
        ({"value": "string", "partition": "bigint"}, "partition must be int, not bigint"),
        ({"key": "string", "Value": "string"}, "there is no column value"),
    ],
)
def test_columns_that_cannot_be_written_are_reported(types: dict[str, str], told: str) -> None:
    with pytest.raises(UserError) as raised:
        check_columns(types, parse_sink_options({**PLACE, "topic": "t"}))
    assert told in str(raised.value)


def test_options_that_change_nothing_are_named_and_let_go_known_or_not() -> None:
    given = {"kafka.linger.ms": "5", "kafka.acks": "1", "kafka.retires": "3", "queryName": "q"}
    of_the_source = {"subscribe": "t", "includeHeaders": "maybe"}
    found = parse_sink_options({**PLACE, **given, **of_the_source, "kafka.max.block.ms": "1500"})
    kafkas = ("kafka.acks", "kafka.linger.ms", "kafka.retires")
    assert found.without_effect == ("includeheaders", "subscribe", *kafkas)
    assert found.topic_patience_s == 1.5
    assert parse_sink_options({**PLACE, "kafka.acks": "-1"}).without_effect == ()


def test_an_option_without_effect_is_warned_of_once_in_a_run_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    before = list(logger.filters)
    quieten.__wrapped__()
    try:
        for option in ("kafka.linger.ms", "kafka.retries", "kafka.linger.ms"):
            warn_without_effect(option)
    finally:
        logger.filters[:] = before
    assert [one.message for one in caplog.records] == [
        "option kafka.linger.ms has no effect here",
        "option kafka.retries has no effect here",
    ]


def test_other_columns_are_left_out_whatever_their_types() -> None:
    others = {"color": "int", "Key": "interval", "timestamp": "date", "key.value": "void"}
    check_columns({"value": "binary", **others}, parse_sink_options({**PLACE, "topic": "t"}))


def test_the_topic_comes_from_the_option_or_from_the_rows() -> None:
    without = parse_sink_options(PLACE)
    check_columns({"value": "binary", "topic": "string", "offset": "bigint"}, without)
    with pytest.raises(UserError, match="needs an option topic, or a column topic"):
        check_columns({"value": "binary"}, without)
