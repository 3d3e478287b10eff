"""Checks the arguments of an admin's calls by their annotations, before anything is asked.

What reaches a broker of this process is not encoded, so that a wrong argument would be kept there;
elsewhere it would fail in an encoder.
"""

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from inspect import signature
from operator import index
from types import FunctionType, NoneType, UnionType
from typing import Any

from ottla.base.arguments import check_place, check_text
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition

WHOLE = range(-(1 << 63), 1 << 63)
LONGEST_SHOWN = 60

Reading = Callable[[Any], Any]
"""Returns an argument as the call takes it; raises `UserError`, or `_OtherKindError`."""


class _OtherKindError(Exception):
    """The value that is not of the annotated kind."""


def check_calls(kind: type) -> None:
    """Has every public method of a class check its arguments."""
    for name, method in list(vars(kind).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(kind, name, _checked(method))


def _checked(method: FunctionType) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = _parameters(method).bind(self, *args, **kwargs)
        except TypeError:
            return method(self, *args, **kwargs)  # It says what is wrong.
        for name, value in bound.arguments.items():
            reading = _readings(method).get(name)
            if reading is not None:
                bound.arguments[name] = _read(f"{method.__name__}: {name}", reading, value)
        return method(*bound.args, **bound.kwargs)

    return call


@cache
def _parameters(method: FunctionType) -> Any:
    return signature(method)


@cache
def _readings(method: FunctionType) -> Mapping[str, tuple[Reading, str]]:
    """How each annotated argument is read, and what it is in words."""
    hints = typing.get_type_hints(method)
    hints.pop("return", None)
    return {name: (_reading(hint), _words(hint)) for name, hint in hints.items()}


def _read(what: str, reading: tuple[Reading, str], value: Any) -> Any:
    read, words = reading
    try:
        return read(value)
    except _OtherKindError as error:
        shown = f"{error.args[0]!a}"
        if len(shown) > LONGEST_SHOWN:
            shown = shown[:LONGEST_SHOWN] + "..."
        raise UserError(f"{what} takes {words}, not {shown}") from None


def _reading(hint: Any) -> Reading:
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if kind in (typing.Union, UnionType):
        return _any_of([_reading(one) for one in parts])
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return _members(*map(_reading, parts))
    if kind is Callable or kind is typing.get_origin(Callable[[], None]):
        return _where(callable)
    if isinstance(kind, type) and issubclass(kind, Iterable):
        return _items(kind, _reading(parts[0]))
    return _PLAIN.get(hint) or _where(
        lambda value: not isinstance(hint, type) or isinstance(value, hint)
    )


def _where(is_sound: Callable[[Any], bool]) -> Reading:
    def read(value: Any) -> Any:
        if not is_sound(value):
            raise _OtherKindError(value)
        return value

    return read


def _any_of(readings: list[Reading]) -> Reading:
    def read(value: Any) -> Any:
        failure: Exception | None = None
        for one in readings:
            try:
                return one(value)
            except (_OtherKindError, UserError) as error:
                # A sentence about a part of the value says more than one about the whole.
                if failure is None or isinstance(error, UserError) or error.args[0] is not value:
                    failure = error
        assert failure is not None
        raise failure

    return read


def _items(kind: type, of_item: Reading) -> Reading:
    def read(value: Any) -> Any:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise _OtherKindError(value)
        if isinstance(value, Iterator) or not isinstance(value, kind):
            return list(map(of_item, value))
        found = list(map(of_item, value))
        is_same = all(one is other for one, other in zip(found, value, strict=True))
        return value if is_same else found

    return read


def _members(of_name: Reading, of_value: Reading) -> Reading:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _OtherKindError(value)
        return {of_name(name): of_value(one) for name, one in value.items()}

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _OtherKindError(value)
    return check_text(value, "a text")


def _whole(value: Any) -> int:
    try:
        number = index(value)
    except TypeError:
        raise _OtherKindError(value) from None
    if isinstance(value, bool) or number not in WHOLE:
        raise _OtherKindError(value)
    return number


_PLAIN: dict[Any, Reading] = {
    Any: lambda value: value,
    NoneType: _where(lambda value: value is None),
    TopicPartition: check_place,
    bool: _where(lambda value: isinstance(value, bool)),
    float: _where(lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    int: _whole,
    str: _text,
}


def _words(hint: Any) -> str:
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if kind in (typing.Union, UnionType):
        return " or ".join(map(_words, parts))
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return f"a dictionary of {' and '.join(map(_plural, parts))}"
    if isinstance(kind, type) and issubclass(kind, Iterable):
        return f"a list of {_plural(parts[0])}"
    if kind is not None:
        return "a function"
    return _WORDS.get(hint, (f"an ottla.{getattr(hint, '__name__', hint)}", ""))[0]


def _plural(hint: Any) -> str:
    return _WORDS.get(hint, ("", f"{_words(hint).removeprefix('an ')} objects"))[1]


_WORDS: dict[Any, tuple[str, str]] = {
    Any: ("anything", "values"),
    NoneType: ("None", "None"),
    TopicPartition: ("a partition", "partitions"),
    bool: ("True or False", "True or False"),
    bytes: ("bytes", "bytes"),
    float: ("a number", "numbers"),
    int: ("a whole number of 64 bits", "whole numbers"),
    str: ("a str", "strings"),
}
