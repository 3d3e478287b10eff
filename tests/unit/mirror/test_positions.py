"""Whether the position of a reproducing mirror is that of the log it now reads."""

import pytest

from ottla.base.ids import Uuid
from ottla.mirror.plan import Refusal
from ottla.mirror.positions import (
    UNKNOWN,
    Origin,
    Position,
    Restart,
    Sent,
    check_content,
    compare_origins,
    parse_position,
    sent,
)
from ottla.mirror.source import Bounds
from ottla.record.record import Record

ONE, OTHER = Uuid(b"1" * 16), Uuid(b"2" * 16)
FULL = Origin(cluster_id="c", topic_id=ONE)


@pytest.mark.parametrize(
    "position",
    [
        Position(offset=7, origin=FULL, last=Sent(5, "a1")),
        Position(offset=7, origin=Origin(cluster_id='a "name"')),
        Position(offset=0, origin=Origin(topic_id=OTHER)),
        Position(offset=7),
    ],
)
def test_a_position_is_read_as_it_was_committed(position: Position) -> None:
    text = position.metadata()
    assert len(text) < 4096
    assert parse_position(position.offset, text) == position


@pytest.mark.parametrize(
    "metadata",
    [None, "", "m", "[]", "3", "[" * 9999, '{"ottla-mirror":2,"cluster":"c"}', '{"cluster":"c"}']
    + [f'{{"ottla-mirror":1,{one}}}' for one in ('"topic":"x"', '"last":[]', '"last":["x",1]')],
)
def test_metadata_of_others_says_nothing_of_a_source(metadata: str | None) -> None:
    assert parse_position(7, metadata) == Position(offset=7)


@pytest.mark.parametrize(
    ("known", "source", "kind"),
    [
        (FULL, FULL, None),
        (FULL, Origin(cluster_id="d", topic_id=OTHER), Refusal),
        (FULL, Origin(cluster_id="d", topic_id=ONE), Refusal),
        (FULL, Origin(cluster_id="d"), Refusal),
        (FULL, Origin(cluster_id="c", topic_id=OTHER), Restart),
        (FULL, Origin(topic_id=OTHER), Refusal),
        (Origin(topic_id=ONE), Origin(cluster_id="c", topic_id=OTHER), Refusal),
        (Origin(topic_id=ONE), FULL, None),
        (FULL, Origin(cluster_id="c"), None),
        (UNKNOWN, FULL, None),
        (FULL, UNKNOWN, None),
    ],
)
def test_a_position_belongs_to_a_cluster_and_a_topic(
    known: Origin, source: Origin, kind: type[object] | None
) -> None:
    found = compare_origins(Position(offset=7, origin=known), source, "name")
    assert type(found) is (type(None) if kind is None else kind)


def bounds(start: int, end: int) -> Bounds:
    return Bounds(start=start, end=end, stable=end, first_batch=start)


RECORD = Record(offset=5, timestamp_ms=1, key=b"k", value=b"v", headers=[("h", b"x")])
CHANGED = [
    Record(offset=5, timestamp_ms=1, key=b"k", value=b"w", headers=[("h", b"x")]),
    Record(offset=5, timestamp_ms=2, key=b"k", value=b"v", headers=[("h", b"x")]),
    Record(offset=5, timestamp_ms=1, key=None, value=b"v", headers=[("h", b"x")]),
    Record(offset=5, timestamp_ms=1, key=b"k", value=b"v", headers=[("h", None)]),
    Record(offset=6, timestamp_ms=1, key=b"k", value=b"v", headers=[("h", b"x")]),
]


@pytest.mark.parametrize(
    ("source", "found", "may_be_gone", "is_refused"),
    [
        (bounds(0, 9), RECORD, False, False),
        (bounds(0, 6), RECORD, False, False),
        (bounds(0, 5), None, True, True),
        (bounds(0, 9), None, False, True),
        (bounds(0, 9), None, True, False),
        (bounds(6, 9), None, False, False),
        *((bounds(0, 9), one, True, True) for one in CHANGED),
    ],
)
def test_a_source_still_has_what_was_sent_last(
    source: Bounds, found: Record | None, may_be_gone: bool, is_refused: bool
) -> None:
    position = Position(offset=6, origin=FULL, last=sent(RECORD))
    refusal = check_content(position, source, found, may_be_gone=may_be_gone)
    assert (refusal is not None) is is_refused
