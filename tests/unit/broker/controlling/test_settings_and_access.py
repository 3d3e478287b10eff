from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import Principal
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.configs.config_changes import (
    Alteration,
    ConfigChange,
    ConfigOperation,
    ResourceAlteration,
)
from ottla.broker.controlling.active_controller import ActiveController
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.users import ScramUpsertion
from ottla.metadata.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding.partition_changes import MIN_ISR
from ottla.metadata.image import (
    ALL_BROKERS,
    METADATA_VERSION,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.records import ClearElrRecord, ConfigRecord
from ottla.metadata.replay import MetadataReplay
from ottla.metadata.tokens import DelegationToken
from tests.support.active_controllers import BEGUN, AloneInQuorum, levels

TOPIC_ID = bytes(15) + b"\x07"
PARTITION = PartitionImage(
    replicas=(1, 2), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0, elr=(2,)
)


def _quorum(**features):
    image = MetadataImage(
        end_offset=20,
        features={METADATA_VERSION: 25, **features},
        topics={"t": TopicImage("t", TOPIC_ID, {0: PARTITION})},
        topic_names={TOPIC_ID: "t"},
        brokers={2: BrokerRegistration(endpoints=())},
    )
    return AloneInQuorum(image=image)


def _setting(kind, name, *changes, is_whole=False):
    altered = [
        ConfigChange(name=key, operation=ConfigOperation.DELETE)
        if text is None
        else ConfigChange(name=key, value=text)
        for key, text in changes
    ]
    return ResourceAlteration(
        resource_type=kind,
        resource_name=name,
        alteration=lambda: Alteration(changes=altered, is_whole=is_whole),
    )


def _alter(quorum, *wanted, validate_only=False):
    return quorum.controller.alter_configs(wanted, validate_only=validate_only)


def _check_is_replayed(quorum):
    """The controller's image is what another node makes of its records."""
    replay = MetadataReplay.of(quorum.begun_with)
    quorum.commit()
    for batch in quorum.log:
        for record, _ in batch:
            replay.replay(record)
    others, own = replay.image(), quorum.controller.image
    assert replace(others, epoch=0, end_offset=0) == replace(own, epoch=0, end_offset=0)


def test_settings_of_every_kind_are_decided_in_one_batch():
    quorum = _quorum()

    outcomes = _alter(
        quorum,
        _setting(ResourceKind.TOPIC, "t", ("retention.ms", "7")),
        _setting(ResourceKind.BROKER, "2", ("log.cleaner.threads", "3")),
        _setting(ResourceKind.BROKER, ALL_BROKERS, ("log.retention.ms", "9")),
        _setting(ResourceKind.GROUP, "g", ("consumer.session.timeout.ms", "50000")),
        _setting(ResourceKind.CLIENT_METRICS, "m", ("interval.ms", "100")),
    )

    assert outcomes == [None] * 5
    (batch,) = quorum.commit()
    assert [record.name for record, _ in batch] == [
        "retention.ms",
        "log.cleaner.threads",
        "log.retention.ms",
        "consumer.session.timeout.ms",
        "interval.ms",
    ]
    image = quorum.controller.image
    assert image.topics["t"].configs == {"retention.ms": "7"}
    assert image.configs_of(ResourceKind.BROKER, "2") == {"log.cleaner.threads": "3"}
    _check_is_replayed(quorum)


def test_settings_that_are_only_validated_change_nothing():
    quorum = _quorum()

    outcomes = _alter(
        quorum, _setting(ResourceKind.TOPIC, "t", ("retention.ms", "7")), validate_only=True
    )

    assert outcomes == [None]
    assert quorum.commit() == []


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (
            _setting(ResourceKind.TOPIC, "other", ("retention.ms", "7")),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (_setting(ResourceKind.TOPIC, "t", ("retention.ms", "soon")), ErrorCode.INVALID_CONFIG),
        (
            _setting(ResourceKind.BROKER, "9", ("log.cleaner.threads", "3")),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        (
            _setting(ResourceKind.BROKER, "two", ("log.cleaner.threads", "3")),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            _setting(ResourceKind.BROKER, "2", ("log.cleaner.threads", "many")),
            ErrorCode.INVALID_REQUEST,
        ),
        (_setting(ResourceKind.BROKER, "2", ("node.id", "3")), ErrorCode.INVALID_REQUEST),
        (_setting(ResourceKind.GROUP, "", ("a", "b")), ErrorCode.INVALID_REQUEST),
        (_setting(77, "x", ("a", "b")), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_change_leaves_the_others_as_they_are(wanted, code):
    quorum = _quorum()

    refused, made = _alter(
        quorum, wanted, _setting(ResourceKind.BROKER, ALL_BROKERS, ("log.retention.ms", "9"))
    )

    assert refused is not None
    assert refused.code is code
    assert made is None
    (batch,) = quorum.commit()
    assert [record.name for record, _ in batch] == ["log.retention.ms"]


def test_another_minimum_of_replicas_clears_who_was_eligible_to_lead():
    quorum = _quorum(**{"eligible.leader.replicas.version": 1})

    outcomes = _alter(quorum, _setting(ResourceKind.TOPIC, "t", (MIN_ISR, "2")))

    assert outcomes == [None]
    (batch,) = quorum.commit()
    assert [type(record) for record, _ in batch] == [ConfigRecord, ClearElrRecord]
    assert quorum.controller.image.topics["t"].partitions[0].elr == ()
    _check_is_replayed(quorum)


@pytest.mark.parametrize(("name", "text"), [("2", "2"), (ALL_BROKERS, None)])
def test_with_eligible_leaders_all_brokers_have_the_same_minimum(name, text):
    quorum = _quorum(**{"eligible.leader.replicas.version": 1})
    _alter(quorum, _setting(ResourceKind.BROKER, ALL_BROKERS, (MIN_ISR, "1")))

    (refused,) = _alter(quorum, _setting(ResourceKind.BROKER, name, (MIN_ISR, text)))

    assert refused is not None
    assert refused.code is ErrorCode.INVALID_CONFIG
    assert "while ELR is enabled" in refused.message


def test_quotas_are_decided_by_entity():
    quorum = _quorum()

    def alteration(limit):
        return QuotaAlteration(names=[("user", "a")], limits={"producer_byte_rate": limit})

    outcomes = quorum.controller.alter_quotas([5.0, -1.0], alteration, validate_only=False)

    assert outcomes[0] is None
    assert outcomes[1] is not None
    assert quorum.controller.image.quotas == {(("user", "a"),): {"producer_byte_rate": 5.0}}
    _check_is_replayed(quorum)


ACL = Acl(
    ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t"),
    Entry("User:a", "*", Operation.READ, Permission.ALLOW),
)


def test_access_rules_users_and_tokens_are_decided_as_by_a_broker_alone():
    quorum = _quorum()
    controller = quorum.controller
    token = DelegationToken(
        token_id="one",
        owner=Principal("User", "a"),
        requester=Principal("User", "a"),
        renewers=(),
        issued_ms=0,
        expires_ms=BEGUN.now_ms + 5,
        max_ms=BEGUN.now_ms + 5,
    )
    user = ScramUpsertion(
        user="a", mechanism_code=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )

    assert controller.create_acls([ACL, ACL]) == [None, None]
    assert controller.alter_users([user]) == {"a": None}
    assert controller.create_token(token) is None

    image = controller.image
    assert list(image.all_acls()) == [ACL]
    assert list(image.credentials) == [("a", "SCRAM-SHA-256")]
    assert image.tokens == {"one": token}
    _check_is_replayed(quorum)

    assert controller.delete_acls([AclFilter()]) == [[ACL]]
    assert controller.drop_token(token) is None
    assert controller.image.acls == {}
    assert controller.image.tokens == {}
    _check_is_replayed(quorum)


MANY = 500


def _rule(number):
    pattern = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, f"t{number}")
    return Acl(pattern, Entry("User:a", "*", Operation.READ, Permission.ALLOW))


def _user(number):
    return ScramUpsertion(
        user=f"u{number}",
        mechanism_code=1,
        iterations=4096,
        salt=b"salt",
        salted_password=b"p" * 32,
    )


def _group(number):
    return _setting(ResourceKind.GROUP, f"g{number}", ("consumer.session.timeout.ms", "46000"))


def _quota(number):
    return QuotaAlteration(names=[("user", f"u{number}")], limits={"producer_byte_rate": 1.0})


VERBS = {
    "rules": lambda one: one.create_acls([*map(_rule, range(MANY))]),
    "filters": lambda one: one.delete_acls(
        [
            AclFilter(
                resource_type=ResourceType.TOPIC, pattern_type=PatternType.LITERAL, name=f"t{name}"
            )
            for name in range(MANY)
        ]
    ),
    "users": lambda one: one.alter_users([*map(_user, range(MANY))]),
    "settings": lambda one: one.alter_configs([*map(_group, range(MANY))], validate_only=False),
    "quotas": lambda one: one.alter_quotas(
        [*map(_quota, range(MANY))], lambda entry: entry, validate_only=False
    ),
}


def test_many_rules_users_settings_and_quotas_are_decided_in_parts():
    quorum = AloneInQuorum(image=_quorum().begun_with, kind=ActiveController)
    for name, verb in VERBS.items():
        parts, count = verb(quorum.controller), 1
        outcomes = []

        def whole(parts=parts, outcomes=outcomes):
            outcomes.append((yield from parts))

        for _ in whole():
            count += 1
        assert count >= 5, name
        assert len(outcomes[0]) == MANY, name
        if name == "rules":
            assert quorum.controller.image.acl_count == MANY
        if name == "filters":
            assert [len(one) for one in outcomes[0]] == [1] * MANY
        _check_is_replayed(quorum)
    image = quorum.controller.image
    assert image.acl_count == 0
    assert len(image.credentials) == len(image.quotas) == MANY
    assert len(image.configs[ResourceKind.GROUP]) == MANY


def test_a_rule_that_two_filters_match_is_told_to_both_and_a_user_twice_in_one_request_is_refused():
    controller = _quorum().controller
    controller.create_acls([*map(_rule, range(3))])
    matched = controller.delete_acls([AclFilter(name="t1"), AclFilter()])
    assert [len(one) for one in matched] == [1, 3]
    assert controller.image.acls == {}
    outcomes = controller.alter_users([_user(1), _user(2), _user(1)])
    assert outcomes["u2"] is None
    assert outcomes["u1"].code is ErrorCode.DUPLICATE_RESOURCE


@pytest.mark.parametrize("level", [31, 32])
def test_ranges_of_addresses_in_rules_are_refused_one_by_one_where_the_level_has_none(level):
    quorum = _quorum(**{METADATA_VERSION: level})
    entry = Entry("User:a", "10.0.0.0/8", Operation.READ, Permission.DENY)
    ranged = Acl(ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t"), entry)

    first, refusal = quorum.controller.create_acls([ACL, ranged])

    assert first is None
    if level == 32:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.code is ErrorCode.UNSUPPORTED_VERSION
        assert "from metadata.version 32 (4.4-IV1) on" in refusal.message
    assert set(quorum.controller.image.all_acls()) == {ACL} | ({ranged} if level == 32 else set())
    _check_is_replayed(quorum)
    assert quorum.controller.delete_acls([AclFilter(host="10.0.0.0/8")]) == [
        [ranged] if level == 32 else []
    ]


def test_a_level_without_users_refuses_them():
    quorum = AloneInQuorum(levels(metadata_version=7))
    user = ScramUpsertion(
        user="a", mechanism_code=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )

    outcomes = quorum.controller.alter_users([user])

    refusal = outcomes["a"]
    assert refusal is not None
    assert refusal.code is ErrorCode.UNSUPPORTED_VERSION
    assert quorum.controller.image.credentials == {}
