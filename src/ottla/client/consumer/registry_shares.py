"""The shares of a group in ZooKeeper, as designed in Kafka 0.7: every consumer computes the same
from the same two sorted lists. Kafka's counterpart: `ZookeeperConsumerConnector`.
"""

from collections.abc import Iterable, Mapping

from ottla.base.partitions import TopicPartition

Owned = dict[TopicPartition, str]
"""Partitions as named in the registries: `<broker id>-<partition>`."""


def registry_name(broker: int, partition: int) -> str:
    return f"{broker}-{partition}"


def share(names: Iterable[str], consumers: Iterable[str], own: str) -> list[str]:
    """The names of the partitions of a topic that one of its consumers gets.

    Partitions are sorted as text, so that those of one broker are together, and consumers by their
    ids. Consumer i of CG gets those from i*N to (i+1)*N - 1, where N is the number of partitions
    for each; if they cannot be divided evenly, the first consumers get one more, as in Kafka's
    code.
    """
    partitions, group = sorted(names), sorted(consumers)
    if own not in group:
        return []
    count, extra = divmod(len(partitions), len(group))
    index = group.index(own)
    begin = index * count + min(index, extra)
    return partitions[begin : begin + count + (index < extra)]


def shares(
    topics: Mapping[str, Mapping[int, int]],
    consumers: Mapping[str, Iterable[str]],
    own: str,
) -> Owned:
    """`topics` have the leader of each partition, and `consumers` the ids that read each topic."""
    found: Owned = {}
    for topic, leaders in topics.items():
        by_name = {registry_name(broker, index): index for index, broker in leaders.items()}
        for name in share(by_name, consumers.get(topic, ()), own):
            found[TopicPartition(topic, by_name[name])] = name
    return found
