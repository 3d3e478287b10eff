"""What the data source may be asked, and what it answers to anything else."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.sources.log_source import LogPartition, LogSource
from ottla.sources.opening import tier_texts
from ottla.sources.options import COLUMN_TYPES, OPTIONS, Isolation, parse_options
from ottla.sources.ranges import resolve_ranges
from ottla.storage.reading.opening import TierPlace

FILES = {"path": "data", "subscribe": "orders"}
BROKER = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
LOGIN = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="me" password="a\\"b";'
)


class TimedLog(LogSource):
    """A log in which the record of offset n is of time 10 * n, up to offset 8."""

    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        found = {place: -(-time_ms // 10) for place, time_ms in wanted.items()}
        return {place: offset if offset <= 8 else None for place, offset in found.items()}


def log(*ends: tuple[int, int]) -> list[LogPartition]:
    return [
        LogPartition(
            topic="orders", topic_id=None, partition=number, start_offset=start, end_offset=end
        )
        for number, (start, end) in enumerate(ends)
    ]


def ranges(given: dict[str, str], *ends: tuple[int, int]) -> list[tuple[int, int]]:
    found = resolve_ranges(parse_options({**FILES, **given}), TimedLog(), log(*ends))
    return [(one.from_offset, one.until_offset) for one in found.values()]


def test_without_options_everything_committed_is_read_but_headers() -> None:
    options = parse_options(FILES)
    assert options.columns == tuple(COLUMN_TYPES)[:-1]
    assert options.isolation is Isolation.READ_COMMITTED
    assert ranges({}, (3, 9), (0, 0)) == [(3, 9), (0, 0)]


def test_names_of_options_have_no_case() -> None:
    options = parse_options({"PATH": "data", "Subscribe": "orders", "includeheaders": "TRUE"})
    assert options.paths == ("data",)
    assert options.choice.subscribed == ("orders",)
    assert options.columns[-1] == "headers"


def test_topics_are_named_assigned_or_fit_a_pattern() -> None:
    places = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("ab", 0)]
    for given, taken in (
        ({"subscribe": "a, ab"}, places),
        ({"assign": '{"a": [1], "ab": [0]}'}, places[1:]),
        ({"subscribePattern": "a."}, places[2:]),
        ({"subscribePattern": "b"}, places[2:]),
        ({"subscribePattern": "^a$"}, places[:2]),
        ({"subscribePattern": "^(?:a|b)$"}, places[:2]),
        ({"subscribePattern": "^b"}, []),
    ):
        choice = parse_options({"path": "data", **given}).choice
        assert [place for place in places if choice.takes(place)] == taken


def test_no_pattern_fits_internal_topics() -> None:
    choice = parse_options({"path": "data", "subscribePattern": ".*"}).choice
    assert choice.topics(["__consumer_offsets", "__mine", "orders"]) == ["__mine", "orders"]
    named = parse_options({"path": "data", "subscribe": "__consumer_offsets"}).choice
    assert named.topics(["__consumer_offsets", "orders"]) == ["__consumer_offsets"]


def test_several_directories_are_separated_by_commas() -> None:
    assert parse_options({**FILES, "path": "a, b"}).paths == ("a", "b")


def test_a_tier_is_named_by_its_place_or_by_the_settings_of_its_broker() -> None:
    assert parse_options(FILES).tier is None
    by_address = parse_options({**FILES, "tier": "s3://b", "tier.key": "k"}).tier
    assert by_address == TierPlace(address="s3://b", keys="k")
    by_settings = parse_options({**FILES, "tier.config": "server.properties"}).tier
    assert by_settings == TierPlace(config="server.properties")
    assert tier_texts(by_settings) == {"tier.config": "server.properties"}
    assert tier_texts(by_address) == {"tier": "s3://b", "tier.key": "k"}
    for given, words in (
        ({"tier": "t", "tier.config": "c"}, "leave one of them out"),
        ({"tier.key": "k"}, "give option tier"),
    ):
        with pytest.raises(UserError, match=words):
            parse_options({**FILES, **given})
    with pytest.raises(UserError, match=r"option tier\.config is for a data directory"):
        parse_options({**BROKER, "tier.config": "c"})


def test_what_is_for_the_client_keeps_its_name() -> None:
    options = parse_options({**BROKER, "kafka.client.id": "x"})
    assert options.client == {"bootstrap.servers": "localhost:9092", "client.id": "x"}


def test_settings_of_the_client_keep_the_names_of_javas_and_those_without_effect_are_left_out() -> (
    None
):
    given = {
        **BROKER,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": LOGIN,
        "kafka.fetch.max.wait.ms": "7",
        "kafka.max.poll.records": "500",
    }
    assert parse_options(given).client == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": LOGIN,
        "fetch.max.wait.ms": "7",
    }


@pytest.mark.parametrize("name", ["isolation.level", "kafka.isolation.level"])
def test_uncommitted_records_are_read_when_asked_for(name: str) -> None:
    options = parse_options({**BROKER, name: "read_uncommitted"})
    assert options.isolation is Isolation.READ_UNCOMMITTED
    assert "isolation.level" not in options.client


def test_files_are_read_and_a_broker_is_committed_to() -> None:
    options = parse_options({**FILES, **BROKER, "kafka.group.id": "g"})
    assert (options.paths, options.group_id) == (("data",), "g")


def test_limits_of_a_trigger_have_sparks_units() -> None:
    given = {"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "3m"}
    limits = parse_options({**FILES, **given}).limits
    assert (limits.max_offsets, limits.min_offsets, limits.max_delay_ms) == (9, 2, 180_000)
    assert parse_options(FILES).limits.max_delay_ms == 900_000


def test_offsets_of_each_partition_resolve() -> None:
    given = {
        "startingOffsets": '{"orders": {"0": 4, "1": -2}}',
        "endingOffsets": '{"orders": {"0": -1, "1": 7}}',
    }
    assert ranges(given, (3, 9), (2, 8)) == [(4, 9), (2, 7)]


def test_times_win_over_offsets_and_one_for_all_over_one_for_each() -> None:
    given = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders": {"0": 45}}'}
    assert ranges(given, (3, 9)) == [(5, 9)]
    assert ranges({**given, "startingTimestamp": "60"}, (3, 9)) == [(6, 9)]


def test_a_read_ends_before_the_first_record_of_a_time() -> None:
    assert ranges({"endingTimestamp": "60"}, (3, 9)) == [(3, 6)]
    assert ranges({"endingOffsetsByTimestamp": '{"orders": {"0": 900}}'}, (3, 9)) == [(3, 9)]


def test_a_start_after_all_records_is_an_error_or_the_end() -> None:
    with pytest.raises(UserError, match="orders-0: startingTimestamp asks for 900, but no record"):
        ranges({"startingTimestamp": "900"}, (3, 9))
    given = {"startingTimestamp": "900", "startingOffsetsByTimestampStrategy": "LATEST"}
    assert ranges(given, (3, 9)) == [(9, 9)]


def test_columns_come_in_the_order_asked_for() -> None:
    options = parse_options({**FILES, "columns": "offset, key"})
    assert options.columns == ("offset", "key")
    assert options.spark_schema == "`offset` bigint, `key` binary"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": "t"}, "give one of the two"),
        ({**FILES, "kafka.bootstrap.servers": "b:1"}, "give one of the two"),
        ({**FILES, "kafka.group.id": "g"}, "group g are in a broker: give kafka.bootstrap"),
        ({"path": "data"}, "which topics\\? give one of"),
        ({**FILES, "assign": "{}"}, "which topics.*not subscribe and assign"),
        ({**FILES, "subscribe": " , "}, "subscribe takes names of topics"),
        ({"path": "data", "assign": '{"a": ["0"]}'}, 'assign takes JSON like {"orders": \\[0, 1'),
        ({"path": "data", "assign": "a"}, "assign takes JSON"),
        ({"path": "data", "subscribePattern": "a("}, r"subscribePattern: a\( is not a valid"),
        ({"path": "data", "subscribePattern": ""}, "subscribePattern takes a pattern"),
        ({**FILES, "isolation.level": "none"}, "takes read_committed or read_uncommitted"),
        ({**FILES, "startingTimestamp": "now"}, "startingTimestamp takes milliseconds"),
        ({**FILES, "startingOffsetsByTimestamp": "{}"}, "ByTimestamp takes JSON like"),
        ({**FILES, "startingOffsetsByTimestampStrategy": "x"}, "takes error or latest"),
        ({**FILES, "failOnDataLoss": "no"}, "failOnDataLoss takes true or false"),
        ({**FILES, "maxTriggerDelay": "soon"}, "a time like 15m"),
        (
            {**FILES, "maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"},
            "minOffsetsPerTrigger, 2, is above maxOffsetsPerTrigger, 1",
        ),
        ({**BROKER, "kafka.auto.offset.reset": "latest"}, "give startingOffsets"),
        ({**FILES, "endingOffset": "latest"}, "no option 'endingoffset'; there are path,"),
        ({**FILES, "startingOffsets": '{"orders": {"0": "1"}}'}, 'JSON like {"orders"'),
        ({**FILES, "startingOffsets": '{"orders": {"0": -3}}'}, 'JSON like {"orders"'),
        ({**FILES, "startingOffsets": '{"orders": [1]}'}, 'JSON like {"orders"'),
        ({**FILES, "startingOffsets": "7"}, 'JSON like {"orders"'),
        ({**FILES, "startingOffsets": "soon"}, 'JSON like {"orders"'),
        ({**FILES, "minPartitions": "0"}, "a number above 0"),
        ({**FILES, "minPartitions": "two"}, "a number above 0"),
        ({**FILES, "includeHeaders": "yes"}, "takes true or false"),
        ({**FILES, "columns": "key,valeu"}, "no column 'valeu'"),
        ({**FILES, "columns": "key,key"}, "a column twice"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_options(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": '{"orders": {"0": 2}}'}, "orders-0: offsets 2 to 2 are lost, "),
        ({"endingOffsets": '{"orders": {"0": 10}}'}, "orders-0: .* asks for 10, .* end at 9"),
        ({"startingOffsets": '{"orders": {"0": 10}}'}, "would end at 9, before 10"),
        ({"startingOffsets": '{"orders": {"1": 4}}'}, "says nothing about orders-0"),
        ({"startingOffsets": '{"sales": {"0": 1}}'}, "says nothing about orders-0"),
        (
            {"startingOffsets": '{"orders": {"0": 4, "7": 1}}'},
            "names partitions that are not read: orders-7",
        ),
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "cannot be latest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "cannot be earliest"),
    ],
)
def test_offsets_that_the_log_lacks_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ranges(given, (3, 9))


def test_a_range_may_be_empty() -> None:
    assert ranges({"startingOffsets": '{"orders": {"0": 9}}'}, (3, 9)) == [(9, 9)]


def test_removed_offsets_are_skipped_when_loss_is_allowed() -> None:
    given = {"startingOffsets": '{"orders": {"0": 2}}', "failOnDataLoss": "false"}
    assert ranges(given, (3, 9)) == [(3, 9)]


@pytest.mark.parametrize(
    ("start", "end", "read"),
    [(4, 50, (4, 9)), (9, 50, (9, 9)), (40, 50, (9, 9)), (1, 50, (3, 9))],
)
def test_of_a_range_beyond_the_end_the_records_there_are_read_when_loss_is_allowed(
    caplog: pytest.LogCaptureFixture, start: int, end: int, read: tuple[int, int]
) -> None:
    given = {
        "startingOffsets": f'{{"orders": {{"0": {start}}}}}',
        "endingOffsets": f'{{"orders": {{"0": {end}}}}}',
    }
    with pytest.raises(UserError, match=r"end at 9 .failOnDataLoss=false reads up to there"):
        ranges(given, (3, 9))
    assert ranges({**given, "failOnDataLoss": "false"}, (3, 9)) == [read]
    assert "orders-0: endingOffsets asks for 50, but the records" in caplog.messages[0]


def test_a_start_beyond_the_end_is_refused_also_when_loss_is_allowed() -> None:
    given = {"startingOffsets": '{"orders": {"0": 50}}', "failOnDataLoss": "false"}
    for end in (-1, 40):
        with pytest.raises(UserError, match="before 50"):
            ranges({**given, "endingOffsets": f'{{"orders": {{"0": {end}}}}}'}, (3, 9))


def test_a_stream_has_no_end() -> None:
    options = parse_options({**FILES, "endingTimestamp": "1"})
    with pytest.raises(UserError, match="a stream has no end: leave out option endingTimestamp"):
        assert options.stream_start


def test_every_option_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    assert [name for name in OPTIONS if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", ["ssl.keystore.key", "ssl.key.pem"])
@pytest.mark.parametrize("kind", ["PRIVATE", "EC PRIVATE", "ENCRYPTED PRIVATE"])
def test_a_key_that_spark_would_show_is_warned_of(
    caplog: pytest.LogCaptureFixture, name: str, kind: str
) -> None:
    """Spark redacts what is called a password, a secret or a token."""
    key = f"-----BEGIN {kind} KEY-----\nMIGH\n-----END {kind} KEY-----"
    found = parse_options({**BROKER, f"kafka.{name}": key})
    assert found.client[name] == key
    warnings = [one.message for one in caplog.records]
    assert "MIGH" not in repr(found) + caplog.text
    if kind.startswith("ENCRYPTED"):
        assert warnings == []
    else:
        (warning,) = warnings
        assert warning.startswith(f"option kafka.{name}: Spark shows the key in its plans")
