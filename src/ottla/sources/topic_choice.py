"""The topics and partitions of a read: by name, by assignment, or by pattern.

Exactly one of `subscribe`, `assign` and `subscribePattern`, as in Spark's own Kafka source.
"""

import json
import re
from collections.abc import Iterable, Mapping

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass

CHOICE_OPTIONS = ("subscribe", "assign", "subscribePattern")

INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata"}
)
"""Topics that no pattern matches, as in Kafka's consumers; `subscribe` can name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """The chosen topics or partitions; exactly one field is set."""

    subscribed: tuple[str, ...] = ()
    assigned: tuple[TopicPartition, ...] = ()
    pattern: re.Pattern[str] | None = None
    """Found anywhere in a name, as by Spark's own source: `^orders$` is the whole of one."""

    @property
    def named(self) -> tuple[str, ...] | None:
        """The topics that must exist; `None` for a pattern."""
        if self.pattern is not None:
            return None
        return self.subscribed or tuple(dict.fromkeys(place.topic for place in self.assigned))

    def topics(self, there: Iterable[str]) -> list[str]:
        """The topics of the log that are chosen."""
        return [topic for topic in there if self._takes_topic(topic)]

    def takes(self, place: TopicPartition) -> bool:
        if self.assigned:
            return place in self.assigned
        return self._takes_topic(place.topic)

    def _takes_topic(self, topic: str) -> bool:
        if self.pattern is not None:
            return topic not in INTERNAL_TOPICS and self.pattern.search(topic) is not None
        return topic in (self.named or ())


def parse_choice(options: Mapping[str, str]) -> TopicChoice:
    """Parses options with names in lower case; raises `UserError`."""
    given = [name for name in CHOICE_OPTIONS if name.lower() in options]
    if len(given) != 1:
        found = f", not {' and '.join(given)}" if given else ""
        raise UserError(
            f"which topics? give one of the options subscribe, assign and subscribePattern{found}"
        )
    text = options[given[0].lower()].strip()
    match given[0]:
        case "subscribe":
            return TopicChoice(subscribed=_parse_names(text))
        case "assign":
            return TopicChoice(assigned=_parse_assignment(text))
        case _:
            return TopicChoice(pattern=_parse_pattern(text))


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UserError("option subscribe takes names of topics, separated by commas")
    return names


def _parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    try:
        places = [
            TopicPartition(topic, number)
            for topic, numbers in json.loads(text).items()
            for number in numbers
        ]
        if places and all(type(one.partition) is int and one.partition >= 0 for one in places):
            return tuple(sorted(set(places)))
    except (ValueError, TypeError, AttributeError):
        pass
    example = json.dumps({"orders": [0, 1]})
    raise UserError(f"option assign takes JSON like {example}, not {text}")


def _parse_pattern(text: str) -> re.Pattern[str]:
    try:
        if text:
            return re.compile(text)
    except re.error as error:
        reason = f"{text} is not a valid pattern ({error})"
        raise UserError(f"option subscribePattern: {reason}") from error
    raise UserError(
        "option subscribePattern takes a pattern, which a part of a topic's name matches"
    )
