"""Which batches are skipped, and that no match is in one of them."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.partitions import OffsetRange
from ottla.codec.compression import Compression
from ottla.record.batch import RecordBatch, batch_at
from ottla.record.builder import RecordBatchBuilder
from ottla.search.fields import Entry, FieldReader
from ottla.search.filters import Condition, all_conditions, parse_condition
from ottla.search.skipping import Skipped, looked_into
from ottla.search.words import NO_WORDS, Words, exactly, in_json

ALL = OffsetRange(from_offset=0, until_offset=1000)


def batch_of(
    *values: bytes | None, codec: Compression = Compression.NONE, base_offset: int = 0
) -> RecordBatch:
    builder = RecordBatchBuilder(compression=codec)
    for value in values:
        builder.append(b"key", value, 1, [("trace", b"abc")])
    found = batch_at(bytearray(builder.build()))
    assert isinstance(found, RecordBatch)
    found.stamp(base_offset, 0)
    return found


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_batch_without_the_word_is_skipped_unpacked(codec: Compression) -> None:
    batch = batch_of(b"Assam", b"Darjeeling", codec=codec, base_offset=10)
    assert list(looked_into(batch, exactly("Ceylon"), ALL)) == [Skipped(11, 2)]
    found = list(looked_into(batch, exactly("Assam"), ALL))
    assert [one.offset for one in found] == [10, 11]


def test_what_is_skipped_is_counted_as_far_as_it_was_asked_for() -> None:
    batch = batch_of(b"a", b"b", b"c", b"d", base_offset=10)
    wanted = OffsetRange(from_offset=11, until_offset=13)
    assert list(looked_into(batch, exactly("x"), wanted)) == [Skipped(12, 2)]


def test_without_words_no_batch_is_skipped() -> None:
    assert len(list(looked_into(batch_of(b"a", None), NO_WORDS, ALL))) == 2


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("key = alice", exactly("alice")),
        ("value == '12'", exactly("12")),
        ("header.trace = abc", exactly("abc")),
        ("value ~ 'pot of tea'", exactly("pot of tea")),
        (".tea = Assam", in_json("Assam")),
        ("key = a and .tea = b", exactly("a") + in_json("b")),
        ("key = a or key = b", ((b"a", b"b"),)),
        ("(key = a and value = c) or key = b", ((b"a", b"b"),)),
        ("key = a or offset > 3", NO_WORDS),
        ("not key = a", NO_WORDS),
        ("key != a", NO_WORDS),
        ("key = null", NO_WORDS),
        ("value ~ 'a|b'", NO_WORDS),
        (".tea ~ Assam", NO_WORDS),
        (".pots = 2", NO_WORDS),
        (".is_black = true", NO_WORDS),
        (".tea", NO_WORDS),
        ("key = ''", NO_WORDS),
        ("partition = 3 and timestamp > 5", NO_WORDS),
    ],
)
def test_words_of_a_condition(where: str, words: Words) -> None:
    assert parse_condition(where, 0).words == words


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("is_escaped", [True, False])
def test_json_is_found_however_it_is_written(encoding: str, is_escaped: bool) -> None:
    text = json.dumps({"tea": "Grüner Tee"}, ensure_ascii=is_escaped)
    assert_found(".tea = 'Grüner Tee'", batch_of(text.encode(encoding)))


def test_an_escaped_slash_and_an_escaped_letter_are_found() -> None:
    assert_found(".path = 'a/b'", batch_of(rb'{"path": "a\/b"}'))
    assert_found(".path = abc", batch_of(rb'{"path": "\u0061bc"}'))


texts = st.text(max_size=6)


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.just("f"), texts | st.integers(), max_size=1)), texts, texts)
def test_no_match_is_skipped(values: list[dict[str, object]], one: str, other: str) -> None:
    wanted = [text.replace("\\", "").replace("'", "") for text in (one, other)]
    condition = parse_condition(f"value.f = '{wanted[0]}' or .f = '{wanted[1]}'", 0)
    batch = batch_of(*(json.dumps(value).encode() for value in values), b"{}")
    assert list(matches(condition, looked_into(batch, condition.words, ALL))) == list(
        matches(condition, looked_into(batch, NO_WORDS, ALL))
    )


def test_several_conditions_need_the_words_of_each() -> None:
    several = [parse_condition("key = a", 0), parse_condition("value = b", 0)]
    both = all_conditions(several)
    assert both is not None
    assert both.words == ((b"a",), (b"b",))
    assert all_conditions([]) is None


def assert_found(where: str, batch: RecordBatch) -> None:
    condition = parse_condition(where, 0)
    assert condition.words
    assert list(matches(condition, looked_into(batch, condition.words, ALL))) == [0]


def matches(condition: Condition, records: object) -> Iterator[int]:
    reader = FieldReader()
    for record in records:  # type: ignore[attr-defined]
        if not isinstance(record, Skipped) and condition.test(reader, Entry("t", 0, record)):
            yield record.offset
