"""Base of the admin's methods: sending requests, and the texts of errors."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from ottla.base.arguments import check_topic_names
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnknownNameError, UnreachableError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import some_text
from ottla.client.administration.calls import check_calls
from ottla.client.connecting.cluster import LEADS_NOT, Cluster
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import RefusedError
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TIMEOUT_MS = 30_000
PARTITIONS_NAMED = 10

MOVED = LEADS_NOT | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""Errors for a partition that is known to exist."""


class Answered(Protocol):
    """A part of a response that may be an error."""

    error_code: int


Part = TypeVar("Part", bound=Answered)
Found = TypeVar("Found")
OnUnreachable = Callable[[UnreachableError], object]
"""Takes the error of a broker that does not answer, where the others' answers are wanted."""


class Asking:
    """Holds the cluster; the methods for each noun are a class derived from this one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_calls(cls)

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def address(self) -> str:
        """The address of the broker that is asked first, as in error messages.

        >>> with ottla.Admin(broker.address) as admin:
        ...     admin.address == broker.address
        True
        """
        return self._cluster.ask_any(lambda broker: broker.address)

    def partitions(self, topics: Iterable[str] | None = None) -> dict[str, list[int]]:
        """The partitions of some topics, or of all. Raises `UnknownNameError` for a missing topic,
        and `RefusedError`.

        >>> admin.partitions(["orders"])
        {'orders': [0, 1]}
        """
        names = None if topics is None else list(check_topic_names(topics))
        asked = None if names is None else [MetadataRequestTopic(name=one) for one in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        found = {}
        for topic in self._cluster.ask_any(lambda broker: broker.ask(request)).topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise self.unknown_topic(topic.name)
            # A topic with a missing leader is included; requests for it come later.
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                raise refused(f"topic {topic.name}", topic.error_code)
            found[topic.name] = sorted(one.partition_index for one in topic.partitions)
        return found

    def places(self, topics: Iterable[str] | None) -> list[TopicPartition]:
        """All partitions of some topics, or of all; raises as `partitions` does.

        >>> admin.places(["orders"])
        [TopicPartition(topic='orders', partition=0), TopicPartition(topic='orders', partition=1)]
        """
        return [
            TopicPartition(topic, index)
            for topic, indexes in self.partitions(topics).items()
            for index in indexes
        ]

    def unknown_topic(self, name: str) -> UnknownNameError:
        """The error for a topic that does not exist, with the nearest existing names.

        >>> str(admin.unknown_topic("order"))
        'there is no topic order; did you mean orders?'
        """
        return UnknownNameError("topic", name, self._cluster.topic_names())

    def _by_leader(
        self, places: Iterable[TopicPartition]
    ) -> list[tuple[Connection, list[TopicPartition]]]:
        """Returns partitions with the connection to their leader; raises `RefusedError`."""
        wanted = list(places)
        self._check_there(wanted)
        return self._cluster.again(lambda: self._cluster.by_leader(wanted))

    def _ask_leaders(
        self,
        places: Iterable[TopicPartition],
        question: Callable[[Connection, list[TopicPartition]], Mapping[TopicPartition, Part]],
    ) -> dict[TopicPartition, Part]:
        """Sends a request to the leader of each partition. Raises `RefusedError`,
        `UnknownNameError`.

        A newly elected leader may not know that it is one: the request is repeated.
        """
        wanted = list(places)
        self._check_there(wanted)
        found: dict[TopicPartition, Part] = {}

        def ask() -> None:
            left = [one for one in wanted if one not in found or found[one].error_code in MOVED]
            for leader, several in self._cluster.by_leader(left):
                found.update(question(leader, several))
            if any(one.error_code in MOVED for one in found.values()):
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)

        try:
            self._cluster.again(ask)
        except ApiError as error:
            for one in wanted:
                if one not in found:
                    raise RefusedError(f"{one.topic}-{one.partition}", error) from error
        check_all({f"{one.topic}-{one.partition}": found[one] for one in wanted})
        return found

    def _of_brokers(
        self, question: Callable[[int, Connection], Found], on_unreachable: OnUnreachable | None
    ) -> list[Found]:
        """What every broker answers, in the order of their ids. Raises `UnreachableError` if one
        does not; with `on_unreachable` that is called instead, and its answer is left out.
        """
        found: list[Found] = []
        for node_id in self._cluster.node_ids():
            try:
                found.append(question(node_id, self._cluster.broker(node_id)))
            except UnreachableError as error:
                if on_unreachable is None:
                    raise
                on_unreachable(error)
        return found

    def _leaderless(self, topic: str) -> UnreachableError | None:
        """The error for partitions of an internal topic that no broker leads: what they keep is
        coordinated by none, and in no broker's list.
        """
        asked = [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        (found,) = self._cluster.ask_any(lambda anyone: anyone.ask(request)).topics
        without = sorted(one.partition_index for one in found.partitions if one.leader_id < 0)
        if not without:
            return None
        names = [f"{topic}-{one}" for one in without]
        return UnreachableError(f"no broker leads {some_text(names, PARTITIONS_NAMED)}")

    def _of_leaders(
        self,
        places: Collection[TopicPartition],
        question: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, Found]],
        on_unreachable: OnUnreachable | None,
    ) -> dict[TopicPartition, Found]:
        """What a question finds about partitions. With `on_unreachable` it is asked for each
        leader: that is called for one that does not answer, and its partitions are left out, as
        are those without a leader. Raises as the question does.
        """
        if on_unreachable is None:
            return dict(question(places))
        by_node: dict[int, list[TopicPartition]] = {}
        for place, leader in self._cluster.leaders(places).items():
            by_node.setdefault(leader.node_id, []).append(place)
        found: dict[TopicPartition, Found] = {}
        for several in by_node.values():
            try:
                found |= question(several)
            except UnreachableError as error:
                on_unreachable(error)
        return found

    def _check_there(self, wanted: Iterable[TopicPartition]) -> None:
        """Raises `UnknownNameError`."""
        topics = {one.topic for one in wanted}
        known = self._cluster.look_up(topics)
        for place in wanted:
            if place.topic not in known:
                raise self.unknown_topic(place.topic)
            if place.partition not in known[place.topic].leaders:
                count = len(known[place.topic].leaders)
                raise UnknownNameError("partition", f"{place.topic}-{place.partition}", (),
                                       f"topic {place.topic}, which has {count}")  # fmt: skip


check_calls(Asking)


def refused(what: str, code: int, message: str | None = None) -> RefusedError:
    """The error for a request that a broker refuses."""
    return RefusedError(what, ApiError(ErrorCode(code), message or None))


def check_all(answers: Mapping[str, Answered]) -> None:
    """Raises `RefusedError` for the first refusal, with the number of further ones."""
    failed = {what: one for what, one in answers.items() if one.error_code != ErrorCode.NONE}
    if not failed:
        return
    (what, first), *others = failed.items()
    message = getattr(first, "error_message", None) or ErrorCode(first.error_code).description
    if others:
        message += f" {len(others)} more have the same error."
    raise refused(what, first.error_code, message)
