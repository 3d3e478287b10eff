"""The controller's access to the registries. Kafka's counterpart: `KafkaZkClient`.

Every write is fenced by the version of `/controller_epoch`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.controller.context import ControllerContext, Leadership
from ottla.controller.operations import (
    Batch,
    Children,
    Create,
    Delete,
    Get,
    Operation,
    Outcome,
    Result,
    Set,
    Steps,
)
from ottla.zookeeper import paths
from ottla.zookeeper.entities import decode_config
from ottla.zookeeper.topics import (
    PartitionState,
    TopicAssignment,
    decode_state,
    decode_topic,
    encode_state,
    encode_topic,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """Partitions whose state was written, whose node had changed, and whose node is missing."""

    written: dict[TopicPartition, Leadership] = field(default_factory=dict)
    changed: list[TopicPartition] = field(default_factory=list)
    missing: list[TopicPartition] = field(default_factory=list)


class Store:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def write(self, operations: Sequence[Operation]) -> Steps[tuple[Result, ...]]:
        """Carries out each write only while this broker is the controller."""
        if not operations:
            return ()
        return (
            yield Batch(operations=tuple(operations), epoch_version=self._context.epoch_version)
        )

    def get(self, path: str, *, watch: bool = False) -> Steps[Result]:
        (result,) = yield Batch(operations=(Get(path, watch),))
        return result

    def children(self, path: str, *, watch: bool = False) -> Steps[tuple[str, ...]]:
        """The children in order; empty if the node is missing."""
        (result,) = yield Batch(operations=(Children(path, watch),))
        return tuple(sorted(result.children))

    def get_all(self, found: Sequence[str], *, watch: bool = False) -> Steps[tuple[Result, ...]]:
        if not found:
            return ()
        return (yield Batch(operations=tuple(Get(path, watch) for path in found)))

    def delete(self, found: Iterable[str]) -> Steps[None]:
        yield from self.write([Delete(path) for path in found])

    # Topics

    def topics(self, names: Sequence[str], *, watch: bool) -> Steps[dict[str, TopicAssignment]]:
        """The existing topics among `names`."""
        results = yield from self.get_all([paths.topic_path(name) for name in names], watch=watch)
        return {
            name: decode_topic(name, result.content)
            for name, result in zip(names, results, strict=True)
            if result.is_done
        }

    def write_topic(self, topic: str) -> Steps[bool]:
        """Writes the assignment in the context; returns whether the topic still exists."""
        context = self._context
        content = encode_topic(
            TopicAssignment(
                partitions=context.assignments[topic], topic_id=context.topic_ids.get(topic)
            )
        )
        (result,) = yield from self.write([Set(paths.topic_path(topic), content)])
        return result.is_done

    def settings(self, topics: Sequence[str]) -> Steps[dict[str, dict[str, str]]]:
        """The topics' own settings."""
        results = yield from self.get_all(
            [paths.config_path(f"topics/{topic}") for topic in topics]
        )
        return {
            topic: decode_config(f"topics/{topic}", result.content)
            for topic, result in zip(topics, results, strict=True)
        }

    # States of partitions

    def states(
        self, partitions: Sequence[TopicPartition], *, watch: bool = False
    ) -> Steps[dict[TopicPartition, Leadership]]:
        """The states of partitions that have one."""
        results = yield from self.get_all(
            [paths.state_path(one) for one in partitions], watch=watch
        )
        return {
            one: Leadership(decode_state(one, result.content), result.version)
            for one, result in zip(partitions, results, strict=True)
            if result.is_done
        }

    def create_states(self, states: Mapping[TopicPartition, PartitionState]) -> Steps[Updates]:
        """Creates states and their parents; `changed` are those that existed."""
        topics = dict.fromkeys(one.topic for one in states)
        yield from self.write([Create(paths.partitions_path(topic), None) for topic in topics])
        yield from self.write([Create(paths.partition_path(one), None) for one in states])
        results = yield from self.write(
            [Create(paths.state_path(one), encode_state(state)) for one, state in states.items()]
        )
        return _updates(states, results)

    def update_states(self, states: Mapping[TopicPartition, Leadership]) -> Steps[Updates]:
        """Writes each state if its node still has the version of the given leadership."""
        operations = [
            Set(paths.state_path(one), encode_state(leadership.state), leadership.version)
            for one, leadership in states.items()
        ]
        results = yield from self.write(operations)
        return _updates({one: leadership.state for one, leadership in states.items()}, results)


def _updates(states: Mapping[TopicPartition, PartitionState], results: Sequence[Result]) -> Updates:
    updates = Updates()
    for (one, state), result in zip(states.items(), results, strict=True):
        if result.is_done:
            updates.written[one] = Leadership(state, result.version)
        elif result.outcome is Outcome.NO_NODE:
            updates.missing.append(one)
        else:
            updates.changed.append(one)
    return updates
