import re
from pathlib import Path

import pytest

from ottla.record.layout import FIELDS, HEADER, HEADER_SIZE, position_of, struct_of

PAGE = Path(__file__).parents[3] / "docs" / "format" / "record-batch.md"


def test_positions_are_those_of_the_format_page() -> None:
    drawing = PAGE.read_text().split("```")[1].split(" attributes:")[0]
    drawn = [
        int(one) for one in re.findall(r"^\d.*$", drawing, re.MULTILINE) for one in one.split()
    ]
    assert sorted(set(drawn)) == [*map(position_of, FIELDS), HEADER_SIZE]


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_can_be_read_alone(name: str) -> None:
    numbers = tuple(range(1, len(FIELDS) + 1))
    header = HEADER.pack(*numbers)
    (found,) = struct_of(name).unpack_from(header, position_of(name))
    assert found == numbers[list(FIELDS).index(name)]


def test_fields_that_are_not_asked_for_are_skipped() -> None:
    header = HEADER.pack(*range(13))
    some = struct_of("length", "magic", "last_offset_delta", "record_count")
    assert some.unpack_from(header, position_of("length")) == (1, 3, 6, 12)
    assert position_of("length") + some.size == HEADER_SIZE
