"""Suggests Ottla's names for calls of confluent-kafka and kafka-python.

Where these two libraries agree, Ottla uses their name.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, ParamSpec, TypeVar

from ottla.base.errors import nearest

PRODUCER = MappingProxyType(
    {
        "list_topics": "use partitions_for(TOPIC), or ottla.Admin(target).list_topics()",
        "poll": "none is needed: callbacks run in the producer's thread",
    }
)
SENDING = MappingProxyType(
    {
        "add_callback": "use add_done_callback(f), or produce(..., on_delivery=f)",
        "add_errback": "use add_done_callback(f), or produce(..., on_delivery=f)",
        "failed": "use exception() is not None",
        "is_done": "use done()",
        "succeeded": "use done() and exception() is None",
    }
)
CONSUMER = MappingProxyType(
    {
        "consumer_group_metadata": "use group_metadata()",
        "get_watermark_offsets": "use beginning_offsets([PARTITION]) and end_offsets([PARTITION])",
        "highwater": "use end_offsets([PARTITION]), or lag(PARTITION)",
        "incremental_assign": "use assign(PARTITIONS) with all of them",
        "incremental_unassign": "use assign(PARTITIONS) with those that are left",
        "list_topics": "use topics() and partitions_for_topic(TOPIC)",
        "store_offsets": "use enable.auto.commit=false and commit_async(RECORD)",
        "unassign": "use unsubscribe()",
    }
)
ADMIN = MappingProxyType(
    {
        "alter_consumer_group_offsets": "use alter_group_offsets(GROUP, OFFSETS)",
        "delete_consumer_groups": "use delete_groups([GROUP])",
        "describe_consumer_groups": "use describe_groups([GROUP])",
        "incremental_alter_configs": "use alter_configs(KIND, NAME, CHANGES)",
        "list_consumer_group_offsets": "use group_offsets(GROUP)",
        "list_consumer_groups": "use list_groups()",
    }
)
LOG = MappingProxyType(
    {
        "beginning_offsets": "use offsets(TOPIC)",
        "consume": "use read, scan or tail, or ottla.Consumer(log, GROUP)",
        "end_offsets": "use offsets(TOPIC)",
        "list_topics": "use topics()",
        "partitions_for_topic": "use topics()[TOPIC]",
        "poll": "use read, scan or tail, or ottla.Consumer(log, GROUP)",
        "produce": "use append(TOPIC, VALUE), or ottla.Producer(log)",
        "send": "use append(TOPIC, VALUE), or ottla.Producer(log)",
        "subscribe": "use tail(TOPIC), or ottla.Consumer(log, GROUP)",
    }
)

KEYWORDS = MappingProxyType(
    {
        "asynchronous": "commit waits; commit_async does not",
        "bootstrap_servers": 'the brokers are the target, the first argument: "HOST:PORT"',
        "group_id": "use group=NAME",
        "listener": "use on_assign=f, on_revoke=f, on_lost=f",
        "max_records": "use num_messages=COUNT",
        "message": "use record=RECORD",
        "replication_factor": "a log in this process has no other replicas",
        "timeout_ms": "use timeout=SECONDS",
    }
)
"""Keyword arguments of other clients that are not similar to Ottla's."""

P = ParamSpec("P")
R = TypeVar("R")


class OtherNames:
    """A class whose unknown attributes raise an error with Ottla's name for them."""

    __slots__ = ()

    _other_names: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # hidden from type checkers, which must report unknown attributes

        def __getattr__(self, name: str) -> object:
            kind = type(self)
            hint = kind._other_names.get(name)
            text = f"ottla.{kind.__name__} has no {name!r}"
            error = AttributeError(f"{text}: {hint}" if hint else text)
            error.name, error.obj = name, self
            raise error


def answers_other_keywords(function: Callable[P, R]) -> Callable[P, R]:
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
    if keyword in KEYWORDS:
        return KEYWORDS[keyword]
    close = nearest(keyword, known)
    if close:
        return f"did you mean {close[0]}?"
    if "settings" in known:
        return f'pass settings by Kafka\'s names, settings={{"{keyword.replace("_", ".")}": VALUE}}'
    return f"there are {', '.join(one for one in known if one != 'self')}"
