"""What members say of ranges of offsets, checked and in pieces of one type."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError

if TYPE_CHECKING:
    from ottla.coordinator.share.records_in_flight import Acknowledgement

KINDS: Final = frozenset(range(5))
"""The values of `AcknowledgeType`."""


def checked(given: "Sequence[Acknowledgement]") -> "Sequence[Acknowledgement]":
    """Raises `ApiError(INVALID_REQUEST)` for ranges that are not in order, or without types."""
    end = 0
    for first, last, types in given:
        if not end <= first <= last:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Ranges of offsets must be in order.")
        if len(types) not in (1, last - first + 1):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Each range has one type, or one an offset.")
        if not KINDS.issuperset(types):
            raise ApiError(ErrorCode.INVALID_REQUEST, "An acknowledgement has an unknown type.")
        end = last + 1
    return given


def pieces_of(given: "Sequence[Acknowledgement]") -> list[tuple[int, int, int]]:
    """The neighbouring offsets with the same type, also of different ranges."""
    pieces: list[tuple[int, int, int]] = []
    before, before_kind = -1, -1
    for first, last, types in given:
        if len(types) == 1:
            alike = [(types[0], last - first + 1)]
        else:
            alike = [(kind, sum(1 for _ in same)) for kind, same in groupby(types)]
        for kind, count in alike:
            if before == first and kind == before_kind:
                pieces[-1] = (pieces[-1][0], first + count - 1, kind)
            else:
                pieces.append((first, first + count - 1, kind))
            first += count
            before, before_kind = first, kind
    return pieces
