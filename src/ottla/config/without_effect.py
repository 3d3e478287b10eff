"""Kafka's settings without effect on a single broker in one process: accepted, and reported.

A `server.properties` written for Kafka names many of them. A row in `BrokerConfig` takes precedence
over an entry here. Kafka's counterparts: the other `*Config` classes that make up
`AbstractKafkaConfig`.
"""

from typing import Final

from ottla.base.patterns import lazy_pattern

WITHOUT_EFFECT: Final[dict[str, tuple[str, ...]]] = {
    "there is one broker, which is its own controller": (
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "controller.socket.timeout.ms",
        "early.start.listeners",
        "eligible.leader.replicas.enable",
        "metadata.log.segment.min.bytes",
        "server.max.startup.time.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
        "unstable.metadata.versions.enable",
        "zookeeper.*",
    ),
    "a single broker has no replicas to copy": (
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "num.replica.alter.log.dirs.threads",
        "num.replica.fetchers",
        "producer.purgatory.purge.interval.requests",
        "replica.socket.receive.buffer.bytes",
    ),
    "one thread serves all, and there are no pools to size": (
        "background.threads",
        "group.coordinator.append.linger.ms",
        "group.coordinator.threads",
        "log.cleaner.io.buffer.size",
        "log.dir.failure.timeout.ms",
        "log.flush.scheduler.interval.ms",
        "num.io.threads",
        "num.network.threads",
        "queued.max.requests",
        "remote.log.manager.follower.thread.pool.size",
        "request.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
    ),
    "logins use no Java classes, and GSSAPI is not supported": (
        "principal.builder.class",
        "sasl.*",
        "security.providers",
    ),
    "a listener has no setting of that name": ("listener.name.*",),
    "no Java classes are loaded": (
        "alter.config.policy.class.name",
        "alter.config.policy.kraft.compatibility.enable",
        "auto.include.jmx.reporter",
        "client.quota.callback.class",
        "config.providers",
        "config.providers.*",
        "create.topic.policy.class.name",
        "kafka.metrics.polling.interval.secs",
        "kafka.metrics.reporters",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "remote.log.metadata.manager.class.path",
        "remote.log.storage.manager.class.path",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "telemetry.max.bytes",
    ),
    "TLS uses the versions of ssl.enabled.protocols, and accepts any certificate that is set "
    "later": (
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.protocol",
    ),
    "a remote tier is not enabled": (
        "rlmm.config.*",
        "rsm.config.*",
    ),
    "the topic of a remote tier's metadata is written and read without a client": (
        "remote.log.metadata.manager.listener.name",
    ),
    "there are no streams groups": ("group.streams.*",),
    "share coordinators run in the broker's thread, and load their states in slices": (
        "share.coordinator.append.linger.ms",
        "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.load.buffer.size",
        "share.coordinator.threads",
    ),
    "a group with members keeps its protocol": ("group.consumer.migration.policy",),
    "the coordinators of groups and transactions decide this themselves": (
        "group.consumer.*",
        "group.coordinator.*",
        "group.share.*",
        "offsets.commit.required.acks",
        "offsets.load.buffer.size",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.state.log.compression.codec",
        "transaction.state.log.load.buffer.size",
        "transaction.two.phase.commit.enable",
    ),
}
"""Names by the reason why they have no effect; `*` stands for any ending."""

DYNAMIC_WITHOUT_EFFECT: Final = frozenset(
    {
        "background.threads",
        "log.cleaner.io.buffer.size",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "principal.builder.class",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Settings that Kafka lets a client change while the broker runs."""


def is_without_effect(name: str) -> bool:
    """Whether Kafka has a setting of that name that has no effect here."""
    return name in _NAMES or name.startswith(_PREFIXES)


def is_internal(name: str) -> bool:
    """Whether Kafka has that very setting, and not only settings whose names begin like it."""
    return name in _NAMES


def reason_of(name: str) -> str:
    """Returns why a setting has no effect here."""
    return next(
        reason
        for reason, patterns in WITHOUT_EFFECT.items()
        for pattern in patterns
        if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))
    )


def is_secret(name: str) -> bool:
    """Whether a setting without effect holds a password or a key, which is never shown."""
    return _SECRET.search(name) is not None


_SECRET = lazy_pattern(
    r"password|secret|jaas\.config|master\.key|keystore\.key|(key|trust)store\.certificate"
)
_PATTERNS = [pattern for patterns in WITHOUT_EFFECT.values() for pattern in patterns]
_NAMES = frozenset(pattern for pattern in _PATTERNS if not pattern.endswith("*"))
_PREFIXES = tuple(pattern.removesuffix("*") for pattern in _PATTERNS if pattern.endswith("*"))
