"""Answers calls with arguments that a function does not have, in a line with those that it has."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from ottla.base.errors import nearest

P = ParamSpec("P")
R = TypeVar("R")


def answers_unknown_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Adds the suggested name to the error of an unknown keyword argument, and the names of the
    arguments that follow to the error of too many without a name.

    Not for calls that applications make per record: it costs a tenth of a microsecond.
    """

    @wraps(function)
    def answering(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            raised_here = error.__traceback__ is not None and error.__traceback__.tb_next is None
            answer = _answer(function, args, kwargs) if raised_here else None
            if answer is None:
                raise
            raise TypeError(answer) from None

    return answering


def _answer(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> str | None:
    """The text for a call with arguments that the function does not take."""
    from inspect import Parameter, signature  # Imported for a mistake alone.

    parameters = signature(function).parameters
    known = list(parameters)
    name = function.__name__
    is_method = known[0] == "self"
    if is_method:
        name = type(args[0]).__name__ + f".{name}".removesuffix(".__init__")
    unknown = [one for one in kwargs if one not in known]
    if unknown:
        return f"{name} has no argument {unknown[0]!r}: {_hint(unknown[0], known)}"
    named = [key for key, one in parameters.items() if one.kind is Parameter.KEYWORD_ONLY]
    in_a_row = len(known) - len(named)
    if named and len(args) > in_a_row:
        takes = ", ".join(known[is_method:in_a_row])
        return f"{name} takes {takes}; name {', '.join(f'{one}=...' for one in named)}"
    return None


def _hint(keyword: str, known: list[str]) -> str:
    close = nearest(keyword, known)
    if close:
        return f"did you mean {close[0]}?"
    if "settings" in known:
        return f'pass settings by Kafka\'s names, settings={{"{keyword.replace("_", ".")}": VALUE}}'
    return f"there are {', '.join(one for one in known if one != 'self')}"
