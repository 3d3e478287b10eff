"""Limits of replication, read from brokers of which some have heard of them and some have not."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import ottla
from ottla.base.partitions import TopicPartition
from ottla.cli.cluster.moves import unslowed
from ottla.client.administration.replica_plans import Move
from ottla.client.administration.replica_throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    NO_LIMIT,
    lift,
    rates_of,
    slow_down,
)

MOVES = [
    Move(place=TopicPartition("t", 0), before=(1, 2), after=(1, 3)),
    Move(place=TopicPartition("t", 1), before=(2,), after=(3,)),
]


class Brokers:
    """Some brokers' settings by their ids, and topics' by their names; 1, 2 and 3 are up."""

    def __init__(self, **settings: dict[str, str]) -> None:
        self.settings = settings

    @property
    def admin(self) -> ottla.Admin:
        return cast(ottla.Admin, self)

    def describe_cluster(self) -> Any:
        return SimpleNamespace(brokers={1: "", 2: "", 3: ""})

    def describe_configs(self, kind: ottla.ResourceKind, names: Iterable[str]) -> Any:
        assert kind is ottla.ResourceKind.BROKER
        return {
            one: {
                key: SimpleNamespace(value=value)
                for key, value in self.settings.get(f"broker_{one}", {}).items()
            }
            for one in names
        }

    def alter_configs(
        self, kind: ottla.ResourceKind, name: str, changes: dict[str, str | None]
    ) -> None:
        own = self.settings.setdefault(f"{kind.name.lower()}_{name}", {})
        for key, value in changes.items():
            own.pop(key, None)
            if value is not None:
                own[key] = value


def test_a_broker_that_does_not_describe_a_limit_has_none() -> None:
    brokers = Brokers(
        broker_1={"log.retention.ms": "7"},
        broker_2={FOLLOWER_RATE: "10", LEADER_RATE: str(NO_LIMIT)},
    )
    assert rates_of(brokers.admin, [1, 2]) == {1: {}, 2: {FOLLOWER_RATE: 10}}


def test_brokers_are_asked_until_each_has_both_limits_of_a_move() -> None:
    both = {FOLLOWER_RATE: "10", LEADER_RATE: "10"}
    brokers = Brokers(broker_1=both, broker_2={FOLLOWER_RATE: "10"})
    found = unslowed([1, 2, 3, 4], 10, brokers.admin)
    assert found == f"broker 2 has not heard of {LEADER_RATE}=10"
    brokers.settings["broker_2"] = both | {LEADER_RATE: "9"}
    assert unslowed([1, 2], 10, brokers.admin) == found, "an earlier limit is another one"
    brokers.settings["broker_2"] = both
    assert unslowed([1, 2, 4], 10, brokers.admin) == "", "4 is not up"


def test_leaders_and_new_replicas_are_slowed_down_and_nothing_of_it_is_left() -> None:
    brokers = Brokers()
    slow_down(MOVES, 10, brokers.admin)
    assert brokers.settings["topic_t"] == {
        LEADER_REPLICAS: "0:1,0:2,1:2",
        FOLLOWER_REPLICAS: "0:3,1:3",
    }
    for rates in rates_of(brokers.admin, [1, 2, 3]).values():
        assert rates == {FOLLOWER_RATE: 10, LEADER_RATE: 10}
    lift(MOVES, brokers.admin)
    assert not any(brokers.settings.values())
