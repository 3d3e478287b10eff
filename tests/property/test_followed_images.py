"""A broker that follows image after image ends as one that was shown the last one only."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.principal import Principal
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.replication.leading import Leading
from ottla.metadata.acls import Operation, PatternType, Permission, ResourceType
from ottla.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    FenceBrokerRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
    UnfenceBrokerRecord,
)
from tests.support.brokers import id_of
from tests.support.scripted_images import ME, OTHER, FollowingMember, ScriptedImages

TOPICS = ("orders", "paid", "stock")
REPLICAS = ((1, 2), (2, 1), (1, 3), (2, 3), (1,), (3, 2, 1))
USERS = ("ana", "bob")


class Cluster:
    """Random decisions of a controller; those that cannot be made now change nothing."""

    def __init__(self) -> None:
        self.images = ScriptedImages()
        self._next_id = 100
        self._rules: dict[tuple[str, str, int], int] = {}

    def _id_of(self, name: str) -> int | None:
        topic = self.images.image.topics.get(name)
        return None if topic is None else int.from_bytes(topic.topic_id, "big")

    def create(self, name: str, *assignment: tuple[int, ...]) -> None:
        if self._id_of(name) is None:
            self._next_id += 1
            self.images.create(name, self._next_id, *assignment)

    def delete(self, name: str) -> None:
        known = self._id_of(name)
        if known is not None:
            self.images.delete(known)

    def elect(self, name: str, leader: int, isr: tuple[int, ...]) -> None:
        known = self._id_of(name)
        if known is not None:
            replicas = self.images.image.topics[name].partitions[0].replicas
            members = [one for one in replicas if one in isr] or [replicas[0]]
            chosen = leader if leader in members else members[0]
            self.images.change(known, isr=members, leader=chosen)

    def shrink(self, name: str) -> None:
        known = self._id_of(name)
        if known is not None:
            leader = self.images.image.topics[name].partitions[0].leader
            self.images.change(known, isr=[leader])

    def move(self, name: str, replicas: tuple[int, ...]) -> None:
        known = self._id_of(name)
        if known is not None:
            self.images.change(known, replicas=[*replicas], isr=[*replicas], leader=replicas[0])

    def configure(self, kind: int, name: str, key: str, value: str | None) -> None:
        if kind != ResourceKind.TOPIC or self._id_of(name) is not None:
            self.images.configure(name, key, value, kind)

    def rule(self, user: str, name: str, permission: int, is_there: bool) -> None:
        key = (user, name, permission)
        if is_there and key not in self._rules:
            self._next_id += 1
            self._rules[key] = self._next_id
            self.images.commit(
                AccessControlEntryRecord(
                    id=id_of(self._next_id),
                    resource_type=ResourceType.TOPIC,
                    resource_name=name,
                    pattern_type=PatternType.PREFIXED,
                    principal=f"User:{user}",
                    host="*",
                    operation=Operation.READ,
                    permission_type=permission,
                )
            )
        elif not is_there and key in self._rules:
            self.images.commit(RemoveAccessControlEntryRecord(id=id_of(self._rules.pop(key))))

    def limit(self, user: str, rate: float | None) -> None:
        entity = [QuotaEntity(entity_type="user", entity_name=user)]
        record = ClientQuotaRecord(
            entity=entity, key="producer_byte_rate", value=rate or 0.0, remove=rate is None
        )
        self.images.commit(record)

    def fence(self, is_fenced: bool) -> None:
        kind = FenceBrokerRecord if is_fenced else UnfenceBrokerRecord
        self.images.commit(kind(id=OTHER, epoch=self.images.image.brokers[OTHER].epoch))


Decision = Callable[[Cluster], None]


def _decisions() -> st.SearchStrategy[Decision]:
    topics, users = st.sampled_from(TOPICS), st.sampled_from(USERS)
    replicas = st.sampled_from(REPLICAS)
    brokers, rates = st.integers(1, 3), st.none() | st.sampled_from([100.0, 200.0])
    texts = st.none() | st.sampled_from(["1000", "2000"])
    settings = st.sampled_from(
        [
            (ResourceKind.BROKER, "", "message.max.bytes"),
            (ResourceKind.BROKER, str(ME), "message.max.bytes"),
            (ResourceKind.BROKER, str(OTHER), "message.max.bytes"),
            (ResourceKind.CLIENT_METRICS, "slow", "interval.ms"),
            *((ResourceKind.TOPIC, name, "retention.ms") for name in TOPICS),
        ]
    )

    def deed(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Decision]:
        return st.tuples(*arguments).map(lambda its: lambda one: getattr(one, name)(*its))

    return st.one_of(
        deed("create", topics, replicas),
        deed("create", topics, replicas, replicas),
        deed("delete", topics),
        deed("elect", topics, brokers, replicas),
        deed("shrink", topics),
        deed("move", topics, replicas),
        st.tuples(settings, texts).map(lambda its: lambda one: one.configure(*its[0], its[1])),
        deed(
            "rule",
            users,
            topics,
            st.sampled_from([Permission.ALLOW, Permission.DENY]),
            st.booleans(),
        ),
        deed("limit", users, rates),
        deed("fence", st.booleans()),
    )


def state_of(member: FollowingMember) -> dict[str, Any]:
    broker = member.broker
    authorizer = broker.security.authorizer
    assert authorizer is not None
    manager = member.replicas.manager
    leading = {
        place: role
        for place, one in manager.partitions.items()
        if isinstance(role := one.role, Leading)
    }
    return {
        "roles": member.roles(),
        "isr": {place: (one.isr, set(one.replicas)) for place, one in leading.items()},
        "topics": {one.name: (one.topic_id, one.overrides, one.config) for one in broker.topics},
        "indexes": {one.name: sorted(one.partitions) for one in broker.topics},
        "unconfirmed": dict(broker.unconfirmed.unknown),
        "settings": broker.settings.sources,
        "metrics": broker.settings.client_metrics,
        "access": {
            (user, name): authorizer.rule(
                Principal("User", user), "h", Operation.READ, ResourceType.TOPIC, name
            )
            for user in USERS
            for name in TOPICS
        },
        "quotas": [broker.quotas.produced("c", 50, 0.0, user) for user in USERS],
    }


@pytest.mark.slow
@given(st.lists(_decisions(), max_size=12), st.lists(_decisions(), max_size=25))
def test_images_one_by_one_and_the_last_at_once_make_the_same_broker(
    before: list[Decision], after: list[Decision]
) -> None:
    cluster = Cluster()
    for decide in before:
        decide(cluster)
    settings = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    members = [FollowingMember(**settings), FollowingMember(**settings)]
    for one in members:
        one.show(cluster.images.image)
    for decide in after:
        decide(cluster)
        members[0].show(cluster.images.image)
    members[1].show(cluster.images.image)
    late = FollowingMember(**settings)
    late.show(cluster.images.image)
    states = [state_of(one) for one in (*members, late)]
    assert states[0] == states[1]
    assert states[0] == states[2]
    assert [one.complaints for one in members] == [[], []]
