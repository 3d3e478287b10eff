"""Throttles the replicas that a move copies to their brokers (KIP-73).

A limit is a broker's setting; the replicas that it applies to are a setting of their topic.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla.base.resource_kinds import ResourceKind
from ottla.client.administration.admin import Admin
from ottla.client.administration.replica_plans import Move

FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_RATE: Final = "leader.replication.throttled.rate"
NO_LIMIT: Final = (1 << 63) - 1


def rates_of(admin: Admin, brokers: Collection[int]) -> dict[int, Mapping[str, int]]:
    """The limits in bytes per second that brokers know, by broker and setting.

    A broker describes these settings only once they have been set.
    """
    names = [str(one) for one in brokers]
    return {
        int(name): {
            key: rate
            for key in (FOLLOWER_RATE, LEADER_RATE)
            if key in entries and (rate := int(entries[key].value or NO_LIMIT)) < NO_LIMIT
        }
        for name, entries in admin.describe_configs(ResourceKind.BROKER, names).items()
    }


def slow_down(moves: Collection[Move], rate: int, admin: Admin) -> None:
    """As in Kafka's tool: throttles the leaders of moved partitions, and their new brokers."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for one in moves:
        place = one.place
        leaders.setdefault(place.topic, []).extend(
            f"{place.partition}:{broker}" for broker in one.before
        )
        followers.setdefault(place.topic, []).extend(
            f"{place.partition}:{broker}" for broker in one.after if broker not in one.before
        )
    for topic, several in leaders.items():
        changes = {
            LEADER_REPLICAS: ",".join(several),
            FOLLOWER_REPLICAS: ",".join(followers[topic]),
        }
        admin.alter_configs(ResourceKind.TOPIC, topic, changes)
    for broker in brokers_of(moves):
        changes = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
        admin.alter_configs(ResourceKind.BROKER, str(broker), changes)


def lift(moves: Collection[Move], admin: Admin) -> None:
    """Removes what `slow_down` set."""
    lists: dict[str, str | None] = {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}
    rates: dict[str, str | None] = {LEADER_RATE: None, FOLLOWER_RATE: None}
    for topic in {one.place.topic for one in moves}:
        admin.alter_configs(ResourceKind.TOPIC, topic, lists)
    for broker in brokers_of(moves):
        admin.alter_configs(ResourceKind.BROKER, str(broker), rates)


def brokers_of(moves: Iterable[Move]) -> set[int]:
    """The brokers that send or receive moved partitions."""
    return {broker for one in moves for broker in (*one.before, *one.after)}
