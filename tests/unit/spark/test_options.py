"""What the data source may be asked, and what it answers to anything else."""

import pytest

from ottla.base.errors import UserError
from ottla.spark.manifest import OffsetRange
from ottla.spark.options import COLUMN_TYPES, parse_options, resolve_ranges
from ottla.spark.plan import LogPartition

FILES = {"path": "data", "subscribe": "orders"}


def log(*ends: tuple[int, int]) -> list[LogPartition]:
    return [
        LogPartition(
            topic="orders", topic_id=None, partition=number, start_offset=start, end_offset=end
        )
        for number, (start, end) in enumerate(ends)
    ]


def ranges(given: dict[str, str], *ends: tuple[int, int]) -> list[tuple[int, int]]:
    found = resolve_ranges(parse_options({**FILES, **given}), log(*ends))
    return [(one.from_offset, one.until_offset) for one in found.values()]


def test_without_options_everything_is_read_but_headers() -> None:
    options = parse_options(FILES)
    assert options.columns == tuple(COLUMN_TYPES)[:-1]
    assert ranges({}, (3, 9), (0, 0)) == [(3, 9), (0, 0)]


def test_names_of_options_have_no_case() -> None:
    options = parse_options({"PATH": "data", "Subscribe": "orders", "includeheaders": "TRUE"})
    assert (options.path, options.topic, options.columns[-1]) == ("data", "orders", "headers")


def test_what_is_for_the_client_keeps_its_name() -> None:
    options = parse_options(
        {"kafka.bootstrap.servers": "localhost:9092", "kafka.client.id": "x", "subscribe": "t"}
    )
    assert options.client == {"bootstrap.servers": "localhost:9092", "client.id": "x"}


def test_offsets_of_each_partition_resolve() -> None:
    given = {
        "startingOffsets": '{"orders": {"0": 4, "1": -2}}',
        "endingOffsets": '{"orders": {"0": -1, "1": 7}}',
    }
    assert ranges(given, (3, 9), (2, 8)) == [(4, 9), (2, 7)]


def test_columns_come_in_the_order_asked_for() -> None:
    options = parse_options({**FILES, "columns": "offset, key"})
    assert options.columns == ("offset", "key")
    assert options.spark_schema == "`offset` bigint, `key` binary"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": "t"}, "give one of the two"),
        ({**FILES, "kafka.bootstrap.servers": "b:1"}, "give one of the two"),
        ({"path": "data"}, "subscribe takes the name of one topic"),
        ({**FILES, "subscribe": "a,b"}, "subscribe takes the name of one topic"),
        ({**FILES, "endingOffset": "latest"}, "no option 'endingoffset'; there are path,"),
        ({**FILES, "startingOffsets": "latest"}, "cannot be latest"),
        ({**FILES, "endingOffsets": '{"orders": {"0": -2}}'}, "cannot be earliest"),
        ({**FILES, "startingOffsets": '{"sales": {"0": 1}}'}, 'JSON like {"orders"'),
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
        ({"startingOffsets": '{"orders": {"0": 2}}'}, "orders-0: .* asks for 2, .* starts at 3"),
        ({"endingOffsets": '{"orders": {"0": 10}}'}, "orders-0: .* asks for 10, .* end at 9"),
        ({"startingOffsets": '{"orders": {"0": 10}}'}, "would end at 9, before 10"),
        ({"startingOffsets": '{"orders": {"1": 4}}'}, "says nothing about partition 0"),
        ({"startingOffsets": '{"orders": {"0": 4, "7": 1}}'}, "has not: partition 7"),
    ],
)
def test_offsets_that_the_log_lacks_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ranges(given, (3, 9))


def test_a_range_may_be_empty() -> None:
    found = resolve_ranges(
        parse_options({**FILES, "startingOffsets": '{"orders": {"0": 9}}'}), log((3, 9))
    )
    assert found == {0: OffsetRange(from_offset=9, until_offset=9)}
