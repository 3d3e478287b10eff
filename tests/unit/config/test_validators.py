"""Bounds and defaults of the settings beside those of Kafka 3.9, and checks of several together."""

import math
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.scram import MAX_ITERATIONS, MIN_ITERATIONS
from ottla.broker.configs.client_metrics import check_client_metrics
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.config.broker import OWN_SETTINGS, broker_config, broker_settings
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.cross_checks import check_reconfiguration
from ottla.config.group import GroupConfig
from ottla.config.kafka_settings import kafka_settings
from ottla.config.listeners import client_listeners
from ottla.config.setting import (
    INT32_MAX,
    INT64_MAX,
    Setting,
    SettingError,
    settings_of,
    with_values,
)
from ottla.config.topic import TopicConfig
from tests.unit.config.kafka_tables import KAFKA_BROKER, KAFKA_SECURITY, KAFKA_TOPIC

CLIENT_METRICS = settings_of(ClientMetricsConfig)

STRICTER_SECURITY = {
    "connections.max.reauth.ms": "no negative time has a meaning",
    "sasl.oauthbearer.clock.skew.seconds": "a negative one refuses tokens that are valid",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "Kafka fails at the first login with 0 or less",
    "sasl.server.max.receive.size": "no client could log in",
}

LARGEST = {
    "compression.gzip.level": 9,
    "compression.lz4.level": 17,
    "compression.zstd.level": 22,
    "group.share.max.delivery.count.limit": 25,
    "group.share.max.partition.max.record.locks": 20_000,
    "group.share.max.record.lock.duration.ms": 3_600_000,
    "group.share.max.size": 1000,
    "min.cleanable.dirty.ratio": 1,
}
"""The largest values in Kafka, where not that of the type."""

OTHER_DEFAULTS = {
    "num.recovery.threads.per.data.dir",
    "offsets.topic.replication.factor",
    "queued.max.request.bytes",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
}
"""Defaults of ours, which docs/compatibility.md lists."""

STRICTER = {
    "broker.heartbeat.interval.ms": "0 would be a loop without a pause",
    "broker.session.timeout.ms": "0 would fence every broker",
    "controller.quorum.append.linger.ms": "no negative time has a meaning",
    "controller.quorum.election.backoff.max.ms": "no negative time has a meaning",
    "controller.quorum.election.timeout.ms": "with 0 no election would end",
    "controller.quorum.fetch.timeout.ms": "with 0 no leader would last",
    "controller.quorum.request.timeout.ms": "0 would time every request out",
    "controller.quorum.retry.backoff.ms": "no negative time has a meaning",
    "initial.broker.registration.timeout.ms": "0 would end every broker at its start",
    "metadata.log.segment.ms": "0 would begin a segment with each record",
    "metadata.max.retention.ms": "no negative time but -1 has a meaning",
    "broker.id": "-1 says that there is none, and Kafka refuses negative ids at its start",
    "connections.max.idle.ms": "no negative time but -1 has a meaning",
    "connections.max.reauth.ms": "no negative time has a meaning",
    "controlled.shutdown.max.retries": "with 0 tries no leadership would be handed over",
    "controlled.shutdown.retry.backoff.ms": "no negative time has a meaning",
    "default.replication.factor": "no topic could be created",
    "group.initial.rebalance.delay.ms": "no negative time has a meaning",
    "leader.imbalance.per.broker.percentage": "no negative share has a meaning",
    "log.cleaner.io.buffer.load.factor": "a share above 1 or below 0 ends Kafka's cleaner",
    "log.cleaner.io.max.bytes.per.second": "no negative rate has a meaning",
    "log.cleaner.threads": "Kafka fails at its start: it divides the memory by 0",
    "node.id": "-1 says that there is none, and Kafka refuses negative ids at its start",
    "offsets.topic.compression.codec": "Kafka fails at its start for an unknown codec",
    "password.encoder.key.length": "AES has keys of 128 to 256 bits only",
    "replica.fetch.min.bytes": "no negative size has a meaning",
    "replica.fetch.wait.max.ms": "no negative time has a meaning",
    "queued.max.request.bytes": "no negative size but -1 has a meaning",
    "replica.high.watermark.checkpoint.interval.ms": "0 would be a loop without a pause",
    "replica.lag.time.max.ms": "0 would throw every follower out",
    "replica.socket.timeout.ms": "0 would time every request out",
    "sasl.server.max.receive.size": "no client could log in",
    "zookeeper.session.timeout.ms": "ZooKeeper refuses it",
}
"""Settings of which Kafka accepts values with which nothing works, and why they are refused."""


def rows(table: str) -> dict[str, tuple[str, float | None]]:
    found = {}
    for line in table.split("\n")[1:-1]:
        name, default, least = line.split()
        found[name] = (default, None if least == "-" else float(least))
    return found


def default_text(row: Setting) -> str:
    largest = {INT32_MAX: "int", INT64_MAX: "long"}
    if isinstance(row.default, bool) or not isinstance(row.default, int):
        return str(row.default)
    return largest.get(row.default, str(row.default))


@pytest.mark.parametrize(
    ("ours", "table"),
    [(OWN_SETTINGS, KAFKA_BROKER), (settings_of(TopicConfig), KAFKA_TOPIC)],
    ids=["broker", "topic"],
)
def test_defaults_and_bounds_are_kafkas_or_known_to_differ(
    ours: dict[str, Setting], table: str
) -> None:
    theirs = {name: row for name, row in rows(table).items() if name in ours}
    other = {name for name, (default, _) in theirs.items() if default_text(ours[name]) != default}
    assert other == OTHER_DEFAULTS & theirs.keys()
    stricter = {name for name, (_, least) in theirs.items() if ours[name].at_least != least}
    assert stricter == STRICTER.keys() & theirs.keys()
    for name in stricter:
        least, own = theirs[name][1], ours[name].at_least
        assert own is not None
        assert least is None or own > least, "nothing that Kafka refuses is accepted"
    assert {name: ours[name].at_most for name in LARGEST if name in ours} == {
        name: most for name, most in LARGEST.items() if name in ours
    }


def security_rows() -> dict[str, tuple[str, str, float | None]]:
    found = {}
    for line in KAFKA_SECURITY.split("\n")[1:-1]:
        name, kind, default, least = line.split()
        found[name] = (kind, default, None if least == "-" else float(least))
    return found


def test_settings_of_logins_and_secrets_have_kafkas_types_defaults_and_bounds() -> None:
    ours = {**kafka_settings(), **broker_settings()}
    theirs = security_rows()
    named = {name for name, row in ours.items() if row.kind == "password" or "sasl." in name}
    assert named <= theirs.keys()
    assert {name: ours[name].kind for name in theirs} == {
        name: kind for name, (kind, _, _) in theirs.items()
    }
    empty = {name: row for name, row in ours.items() if row.default in (None, "", ())}
    other = {
        name
        for name, (_, default, _) in theirs.items()
        if default_text(ours[name]) != default and not (default == "None" and name in empty)
    }
    assert other == {"sasl.enabled.mechanisms"}  # docs/compatibility.md
    bounds = {name: (least, ours[name].at_least) for name, (_, _, least) in theirs.items()}
    stricter = {name for name, (least, own) in bounds.items() if least != own}
    assert stricter == STRICTER_SECURITY.keys()
    for least, own in (bounds[name] for name in stricter):
        assert own is not None
        assert least is None or own > least
    assert not [name for name in theirs if ours[name].at_most is not None]
    assert not [name for name in theirs if ours[name].one_of is not None]


@pytest.mark.parametrize("name", security_rows())
def test_a_value_that_is_not_of_a_settings_type_is_refused_and_no_secret_is_shown(
    name: str,
) -> None:
    row = broker_settings().get(name)
    if row is None or row.kind not in ("int", "long", "short", "double", "password"):
        return
    if row.kind == "password":
        assert "hidden" not in repr(broker_config({name: "hidden"}))
        return
    with pytest.raises(SettingError, match=name):
        broker_config({name: "hidden"})


@pytest.mark.parametrize(
    ("values", "is_accepted"),
    [
        ({}, True),
        ({"metrics": ""}, True),
        ({"metrics": "*"}, True),
        ({"metrics": "org.apache.kafka.,x"}, True),
        ({"interval.ms": "100"}, True),
        ({"interval.ms": " 3600000 "}, True),
        ({"interval.ms": "99"}, False),
        ({"interval.ms": "3600001"}, False),
        ({"interval.ms": "-1"}, False),
        ({"interval.ms": "1e3"}, False),
        ({"interval.ms": ""}, False),
        ({"interval.ms": "2147483648"}, False),
        ({"match": ""}, True),
        ({"match": "client_id=a"}, True),
        ({"match": " client_id = a.* , client_source_port=1"}, True),
        ({"match": "client_id=a="}, True),
        ({"match": "client_id=a=="}, True),
        ({"match": "client_id= ="}, True),
        ({"match": "client_id=a,client_id=b"}, True),
        ({"match": "client_id"}, False),
        ({"match": "client_id="}, False),
        ({"match": "client_id=="}, False),
        ({"match": "="}, False),
        ({"match": "=a"}, False),
        ({"match": "client_id=a=b"}, False),
        ({"match": "client_id==a"}, False),
        ({"match": "client_id=a,"}, False),
        ({"match": "CLIENT_ID=a"}, False),
        ({"match": "client_id=("}, False),
        ({"other": "1"}, False),
    ],
    ids=str,
)
def test_a_subscription_to_clients_metrics_has_kafkas_settings(
    values: dict[str, str], is_accepted: bool
) -> None:
    assert {row.name: (row.kind, row.default) for row in CLIENT_METRICS.values()} == {
        "interval.ms": ("int", 300_000), "match": ("list", ()), "metrics": ("list", ()),
    }  # fmt: skip
    if is_accepted:
        check_client_metrics("m", values)
        return
    with pytest.raises(ApiError):
        check_client_metrics("m", values)


def test_every_number_of_ours_is_in_the_table_or_only_here() -> None:
    numbers = {
        name
        for name, row in OWN_SETTINGS.items()
        if row.kind in ("int", "short", "long", "double") and not name.startswith("ottla.")
    }
    assert numbers - rows(KAFKA_BROKER).keys() == {
        # Kafka has no such settings, or their values have no bounds and no default there.
        "controller.quorum.fetch.max.bytes",  # of Kafka 4.2
        "controller.quorum.fetch.snapshot.max.bytes",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "max.auto.create.topics.per.minute",
        "max.auto.create.topics.per.request",
        "max.incremental.fetch.session.cache.partitions",
        "metadata.log.segment.bytes",  # its least value is another setting's
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.ttl.ms",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        # Of Kafka 4.1, which is later than the table.
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.snapshot.update.records.per.snapshot",
        "share.coordinator.state.topic.compression.codec",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.prune.interval.ms",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.write.timeout.ms",
        "unclean.leader.election.interval.ms",  # internal in Kafka
        "zookeeper.connection.timeout.ms",
    }
    numbers = {
        name
        for name, row in settings_of(TopicConfig).items()
        if row.kind in ("int", "long", "double")
    }
    assert numbers <= rows(KAFKA_TOPIC).keys()


def test_the_documents_list_every_other_default() -> None:
    page = (Path(__file__).parents[3] / "docs/compatibility.md").read_text()
    for name in OTHER_DEFAULTS:
        assert f"`{name}`" in page, name


REFUSED = {
    "no thread of the cleaner": {"log.cleaner.threads": "0"},
    "a mebibyte of memory for keys": {"log.cleaner.dedupe.buffer.size": "1048576"},
    "half of it for each thread": {
        "log.cleaner.threads": "2",
        "log.cleaner.dedupe.buffer.size": "2097153",
    },
    "no retention in ms": {"log.retention.ms": "0"},
    "no retention in minutes": {"log.retention.minutes": "0"},
    "no retention in hours": {"log.retention.hours": "0"},
    "no connection at all": {"max.connections.per.ip": "0"},
    "more acknowledgements than replicas": {
        "offsets.commit.required.acks": "3", "offsets.topic.replication.factor": "2",
    },
    "acknowledgements that nobody counts": {"offsets.commit.required.acks": "-2"},
    "acknowledgements that are no number": {"offsets.commit.required.acks": "all"},
    "no classic groups": {"group.coordinator.rebalance.protocols": "consumer"},
    "no protocol of groups": {"group.coordinator.rebalance.protocols": ""},
    "no assignor": {"group.consumer.assignors": ""},
    "a heartbeat as long as the session": {
        "group.consumer.heartbeat.interval.ms": "45000",
        "group.consumer.max.heartbeat.interval.ms": "45000",
    },
    "a session below its bounds": {"group.consumer.session.timeout.ms": "44999"},
    "a session beyond its bounds": {"group.consumer.session.timeout.ms": "60001"},
    "bounds that cross": {
        "group.consumer.max.session.timeout.ms": "44999",
        "group.consumer.session.timeout.ms": "44999",
    },
    "a wait longer than the connection's": {"replica.socket.timeout.ms": "499"},
    "a wait in which followers leave": {"replica.lag.time.max.ms": "499"},
    **{
        f"{name}={text}": {name: text}
        for name in (
            "background.threads", "num.io.threads", "num.network.threads",
            "num.recovery.threads.per.data.dir", "num.replica.fetchers",
        )
        for text in ("0", "-1", "many")
    },
}  # fmt: skip


@pytest.mark.parametrize("values", REFUSED.values(), ids=REFUSED)
def test_what_would_stop_a_job_or_delete_all_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(SettingError) as error:
        broker_config(values)
    assert any(name in str(error.value) for name in values)


@pytest.mark.parametrize(
    "values",
    [
        {"log.retention.ms": "-1"},
        {"log.retention.ms": "-5"},
        {"log.retention.minutes": "-5"},
        {"log.cleanup.policy": ""},
        {"log.cleanup.policy": "compact, delete"},
        {"offsets.commit.required.acks": "-1"},
        {"offsets.commit.required.acks": "2", "offsets.topic.replication.factor": "2"},
        {"log.retention.ms": "1", "log.retention.hours": "0"},
        {"log.retention.hours": "-1"},
        {"log.cleaner.threads": "127"},
        {"log.cleaner.dedupe.buffer.size": "1048577"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"num.io.threads": "1"},
    ],
    ids=str,
)
def test_what_kafka_accepts_is_accepted(values: dict[str, str]) -> None:
    broker_config(values)


def test_each_negative_retention_of_a_broker_is_none_and_a_topic_has_one_value_for_that() -> None:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        assert broker_config({name: "-5"}).topic_defaults.retention_ms == -1
    with pytest.raises(SettingError):
        settings_of(TopicConfig)["retention.ms"].parse("-5")


KAFKA_TEXTS: dict[str, tuple[str, ...]] = {
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "group.coordinator.rebalance.protocols": ("classic", "consumer"),
    "log.cleanup.policy": ("compact", "delete"),
    "log.message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "process.roles": ("broker", "controller"),
    "security.inter.broker.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "ssl.client.auth": ("required", "requested", "none"),
}
"""Texts and lists that Kafka checks against some values, which are case-sensitive."""

STRICTER_TEXTS = {
    "authorizer.class.name": "classes of Java cannot be loaded",
    "group.consumer.assignors": "classes of Java cannot be loaded",
    "password.encoder.cipher.algorithm": "Kafka takes what the Java machine has",
    "password.encoder.keyfactory.algorithm": "Kafka takes what the Java machine has",
    "replica.selector.class": "classes of Java cannot be loaded",
    "ssl.enabled.protocols": "Kafka takes what the Java machine has, also SSLv3",
    "ssl.endpoint.identification.algorithm": "Java fails with another one at a connection",
    "ssl.keystore.type": "Kafka takes what the Java machine has, and fails at its start",
    "ssl.truststore.type": "Kafka takes what the Java machine has, and fails at its start",
    "zookeeper.ssl.endpoint.identification.algorithm": "Java fails with another one",
    "zookeeper.ssl.keystore.type": "Kafka takes what the Java machine has, and fails then",
    "zookeeper.ssl.truststore.type": "Kafka takes what the Java machine has, and fails then",
}
"""Texts that Kafka does not check when it reads its settings, and why they are checked here."""


def test_texts_and_lists_have_kafkas_values_or_are_known_to_have_fewer() -> None:
    rows = {**broker_settings(), **settings_of(TopicConfig)}
    checked = {name: row.one_of for name, row in rows.items() if row.one_of is not None}
    assert checked.keys() == KAFKA_TEXTS.keys() | STRICTER_TEXTS.keys()
    for name, values in KAFKA_TEXTS.items():
        row = rows[name]
        assert set(checked[name] or ()) == set(values), name
        for one in values:
            assert row.parse(f" {one} ") == ((one,) if row.kind == "list" else one)
            with pytest.raises(SettingError):
                row.parse(one.swapcase())
        if row.kind == "list":
            assert row.parse(",".join(values)) == values
            assert row.parse("") == ()
            with pytest.raises(SettingError):
                row.parse(f"{values[0]},other")
        else:
            with pytest.raises(SettingError):
                row.parse("")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"listeners": ""}, "listeners"),
        ({"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9093"}, "PLAINTEXT"),
        ({"listeners": "INTERNAL://:9092"}, "INTERNAL"),
        ({"listeners": "PLAINTEXT://:many"}, "many"),
        ({"listener.security.protocol.map": "PLAINTEXT:NONE"}, "NONE"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "SSL"},
            "security.inter.broker.protocol",
        ),
        (
            {"listeners": "PLAINTEXT://:9092", "inter.broker.listener.name": "SSL"},
            "inter.broker.listener.name",
        ),
    ],
    ids=str,
)
def test_listeners_are_checked_against_each_other(values: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        client_listeners(broker_config(values))


def test_the_documents_say_which_texts_are_stricter() -> None:
    page = (Path(__file__).parents[3] / "docs/compatibility.md").read_text()
    for name in STRICTER_TEXTS:
        assert f"`{name}`" in page, name


def test_settings_of_groups_have_the_bounds_of_their_brokers() -> None:
    assert {name: row.at_least for name, row in settings_of(GroupConfig).items()} == {
        "consumer.heartbeat.interval.ms": 1,
        "consumer.session.timeout.ms": 1,
        "errors.deadletterqueue.copy.record.enable": None,
        "errors.deadletterqueue.topic.name": None,
        "ottla.share.scheduling.enable": None,
        "share.assignment.interval.ms": 0,
        "share.auto.offset.reset": None,
        "share.delivery.count.limit": 2,
        "share.heartbeat.interval.ms": 1,
        "share.isolation.level": None,
        "share.partition.max.record.locks": 100,
        "share.record.lock.duration.ms": 1000,
        "share.renew.acknowledge.enable": None,
        "share.session.timeout.ms": 1,
    }
    config = broker_config({})
    for name, least, most in (
        ("consumer.session.timeout.ms", 45_000, 60_000),
        ("consumer.heartbeat.interval.ms", 5000, 15_000),
        ("share.session.timeout.ms", 45_000, 60_000),
        ("share.heartbeat.interval.ms", 5000, 15_000),
        ("share.record.lock.duration.ms", 15_000, 60_000),
        ("share.delivery.count.limit", 2, 10),
        ("share.partition.max.record.locks", 100, 4000),
    ):
        for value in (least, most):
            config.check_group(with_values(GroupConfig(), {name: str(value)}, "group"))
        for value in (least - 1, most + 1):
            with pytest.raises(SettingError, match=name):
                config.check_group(with_values(GroupConfig(), {name: str(value)}, "group"))


def test_passwords_hashed_by_a_client_have_kafkas_bounds_of_iterations() -> None:
    assert (MIN_ITERATIONS, MAX_ITERATIONS) == (4096, 16384)


CLIENT = (("user", "u"), ("client-id", "c"))


@pytest.mark.parametrize(
    ("names", "key", "accepted", "refused"),
    [
        (CLIENT, "producer_byte_rate", (1, 1.0000001, 2.0**63), (0, -1, 0.5, 1e19, math.inf)),
        (CLIENT[:1], "consumer_byte_rate", (1, 1e9), (0, 1.01, math.nan)),
        (CLIENT[1:], "request_percentage", (0.01, 1e9), (0, -0.1, math.inf)),
        (CLIENT, "controller_mutation_rate", (), (1,)),  # docs/compatibility.md
        (CLIENT, "connection_creation_rate", (), (1,)),
        ((("ip", "10.0.0.1"),), "connection_creation_rate", (1, 2**31 - 1), (0, 1.5, 2**31)),
        ((("ip", None),), "connection_creation_rate", (1,), (-1,)),
        ((("ip", "10.0.0.1"),), "producer_byte_rate", (), (1,)),
        ((("ip", "10.0.0.1"), ("user", "u")), "connection_creation_rate", (), (1,)),
        ((("user", ""),), "producer_byte_rate", (), (1,)),
        ((("host", "h"),), "producer_byte_rate", (), (1,)),
        ((), "producer_byte_rate", (), (1,)),
    ],
)
def test_each_quota_has_kafkas_entities_and_bounds(
    names: tuple[tuple[str, str | None], ...],
    key: str,
    accepted: tuple[float, ...],
    refused: tuple[float, ...],
) -> None:
    for value in accepted:
        assert QuotaAlteration(names=names, limits={key: value}).apply({})[1] == {key: value}
    for value in refused:
        with pytest.raises(ApiError) as error:
            QuotaAlteration(names=names, limits={key: value}).apply({})
        assert error.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "before", "ends"),
    [
        ("log.cleaner.threads", 4, (2, 8)),
        ("num.recovery.threads.per.data.dir", 5, (2, 10)),
        ("num.io.threads", None, (4, 16)),
        ("num.network.threads", None, (1, 6)),
        ("num.replica.fetchers", None, (1, 2)),
        ("background.threads", None, (5, 20)),
    ],
)
def test_a_number_of_threads_may_halve_or_double_at_run_time(
    name: str, before: int | None, ends: tuple[int, int]
) -> None:
    old = broker_config({} if before is None else {name: str(before)})
    for count in ends:
        check_reconfiguration(old, broker_config({name: str(count)}))
    outside = [one for one in (ends[0] - 1, ends[1] + 1) if one > 0]
    for count in outside:
        with pytest.raises(SettingError, match="the current value"):
            check_reconfiguration(old, broker_config({name: str(count)}))
