"""Frees the messages of a long request in turns.

If the last reference to a message with 100,000 elements is dropped, it is freed in one step of
20 ms, in which no other client is served. Objects with other references are not touched.
"""

from functools import cache
from sys import getrefcount
from typing import Any, Final

from ottla.base.turns import CURRENT, PART_SIZE, Turn
from ottla.codec.schema import Message, Struct


def free_in_turns(message: Message) -> None:
    """Empties the arrays of a message that was read or written, if a turn is running.

    The caller must hold the only use of the message.
    """
    turn = CURRENT.get()
    if turn is not None:
        _free(message, turn)


def free_all(request: Message) -> None:
    """Frees a completed request in turns, and before it the objects that its handler has made."""
    turn = CURRENT.get()
    if turn is not None:
        turn.free()
        _free(request, turn)


def _free(struct: Struct, turn: Turn) -> None:
    for name, has_structs in _arrays(type(struct)):
        # A short array without structs is freed at once with its struct.
        if not has_structs and len(getattr(struct, name) or ()) <= PART_SIZE:
            continue
        if _holders(struct, name) != _ALONE:
            continue
        items = getattr(struct, name)
        if type(items) is not list:
            continue
        if has_structs and _have_arrays(items):
            _free_each(items, turn)
        else:
            turn.empty(items)


def _free_each(items: list[Struct], turn: Turn) -> None:
    """Frees structs one by one, after their own arrays."""
    while items:
        turn.yield_turn()
        one = items.pop()
        if getrefcount(one) == _ALONE_IN_VARIABLE:
            _free(one, turn)


def _have_arrays(structs: list[Struct]) -> bool:
    return bool(structs) and bool(_arrays(type(structs[-1])))


@cache
def _arrays(struct: type[Struct]) -> tuple[tuple[str, bool], ...]:
    """The names of a struct's arrays, and whether their elements are structs."""
    return tuple(
        (field.name, field.struct is not None) for field in struct.FIELDS if field.kind == "array"
    )


def _holders(struct: Any, name: str) -> int:
    return getrefcount(getattr(struct, name))


def _holders_of_variable() -> int:
    one = Struct.__new__(Struct)
    return getrefcount(one)


class _Sample:
    """An object with an attribute that has no other references, to measure its count."""

    def __init__(self) -> None:
        self.items: list[int] = []


_ALONE: Final = _holders(_Sample(), "items")
_ALONE_IN_VARIABLE: Final = _holders_of_variable()
