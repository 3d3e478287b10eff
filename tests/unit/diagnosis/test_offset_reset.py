"""Places in a log, as they are typed."""

import pytest

from ottla.base.errors import UserError
from ottla.diagnosis.offset_reset import Reset, ResetKind, parse_place


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        ("earliest", ResetKind.EARLIEST),
        ("beginning", ResetKind.EARLIEST),
        ("latest", ResetKind.LATEST),
        ("end", ResetKind.LATEST),
        ("current", ResetKind.CURRENT),
    ],
)
def test_a_place_has_the_names_of_kafkas_tools_and_of_consume(typed: str, kind: ResetKind) -> None:
    assert parse_place("--to", typed, now_ms=0) == Reset(kind=kind)


def test_a_place_that_does_not_exist_is_refused_with_the_possible_ones() -> None:
    with pytest.raises(UserError, match="--to start: a place is beginning, end, current, "):
        parse_place("--to", "start", now_ms=0)
