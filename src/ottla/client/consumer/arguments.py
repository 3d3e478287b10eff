"""The arguments of both kinds of consumers, in one place."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.base.arguments import check_offset, check_offsets, check_place, check_places
from ottla.base.errors import UserError
from ottla.base.partitions import Offsets, Place, TopicPartition
from ottla.client.administration.group_offsets import ReadUpTo
from ottla.client.connecting.cluster import ClientSettings
from ottla.client.connecting.settings import client_settings
from ottla.client.connecting.target import Target, open_target
from ottla.client.consumer.assignors import PartitionAssignor
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.group import Subscription
from ottla.client.consumer.records import ConsumerRecord, Decoding
from ottla.config.consumer import ConsumerConfig, consumer_config

Topics = str | re.Pattern[str] | Iterable[str]
Placed = Iterable[Place] | Mapping[TopicPartition, int | None] | Mapping[Place, int | None]
Listener = Callable[[list[TopicPartition]], Any]


def make_core(
    target: Target,
    group: str | None,
    settings: Mapping[str, Any] | None,
    decoding: Decoding,
    assignors: Sequence[PartitionAssignor],
) -> ConsumerCore:
    """Creates the core from an application's arguments; raises `UserError`."""
    if group is not None and not (isinstance(group, str) and group):
        raise UserError(f"a group is a name, or None for no group, not {group!r}")
    config, client = consumer_settings(settings)
    decoding = Decoding(key=decoding.key, value=decoding.value, check_crcs=config.check_crcs)
    cluster = open_target(target, client)
    try:
        return ConsumerCore(cluster, group, config, decoding, assignors)
    except BaseException:
        cluster.close()
        raise


def consumer_settings(
    settings: Mapping[str, Any] | None,
) -> tuple[ConsumerConfig, ClientSettings]:
    """As `client_settings`; the group is not a setting."""
    if "group.id" in (settings or {}):
        raise UserError("group.id: name the group as group=NAME")
    return client_settings(settings, consumer_config)


def subscription_of(topics: Topics, *, by_broker: bool) -> Subscription:
    """Parses a name, several names, a compiled expression, or a text that begins with `^`.

    Such a text is sent to the broker, if in the group's protocol the broker finds the topics.
    """
    if isinstance(topics, re.Pattern):
        return Subscription(pattern=topics)
    names = [topics] if isinstance(topics, str) else topics
    if not isinstance(names, Iterable) or not all(isinstance(one, str) for one in names):
        raise UserError(f"subscribe takes a topic's name or a list of names, not {topics!r}")
    names = list(names)
    expressions = [one for one in names if one.startswith("^")]
    plain = frozenset(names) - set(expressions)
    if not expressions:
        return Subscription(topics=plain)
    text = "|".join(f"(?:{one})" for one in expressions)
    if by_broker:
        return Subscription(topics=plain, regex=text.replace("(?:^", "(?:"))
    return Subscription(topics=plain, pattern=expression_of(text))


def expression_of(text: Any) -> re.Pattern[str]:
    """A compiled regular expression; raises `UserError`."""
    if not isinstance(text, str | re.Pattern):
        raise UserError(f"a pattern is a regular expression such as '^order.*', not {text!r}")
    try:
        return re.compile(text)
    except re.error as error:
        raise UserError(f"{text}: not a regular expression: {error}") from error


def positions_of(partitions: Placed) -> dict[TopicPartition, int | None]:
    if not isinstance(partitions, Mapping):
        return dict.fromkeys(check_places(partitions))
    return {
        check_place(place): None if offset is None else check_offset(offset)
        for place, offset in partitions.items()
    }


def offsets_to_commit(
    record: ConsumerRecord | None, offsets: Offsets | None
) -> dict[TopicPartition, ReadUpTo] | None:
    """Returns `None` for the positions of all partitions."""
    if record is not None and offsets is not None:
        raise UserError("commit either a record or offsets, not both")
    if record is not None:
        if not isinstance(record, ConsumerRecord):
            raise UserError(
                "commit takes a record that was read, or offsets={(TOPIC, PARTITION): OFFSET}, "
                f"not {type(record).__name__}"
            )
        return {record.topic_partition: ReadUpTo(record.offset + 1, record.leader_epoch)}
    if offsets is None:
        return None
    return {one: ReadUpTo(at) for one, at in check_offsets(offsets).items()}
