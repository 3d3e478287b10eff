"""The settings of Kafka 3.9's brokers that have no effect here: type, default, and whether dynamic.

DescribeConfigs lists them beside Ottla's own, as Kafka lists all of its own, so that tools which
compare brokers find each name. What `without_effect.py` also accepts and Kafka does not list
(internal settings, families such as `listener.name.*`) is not here. Defaults that depend on the
Java machine are those of Java 11 and later. Source: Kafka 3.9's generated page of broker settings.
"""

from functools import cache
from typing import Final

from ottla.config.setting import Setting
from ottla.config.without_effect import DYNAMIC_WITHOUT_EFFECT, reason_of

KAFKA_SETTINGS: Final = """
alter.config.policy.class.name                        class     null
alter.log.dirs.replication.quota.window.num           int       11
alter.log.dirs.replication.quota.window.size.seconds  int       1
auto.include.jmx.reporter                             boolean   true
background.threads                                    int       10
client.quota.callback.class                           class     null
controller.quota.window.num                           int       11
controller.quota.window.size.seconds                  int       1
controller.socket.timeout.ms                          int       30000
create.topic.policy.class.name                        class     null
delete.records.purgatory.purge.interval.requests      int       1
early.start.listeners                                 string    null
eligible.leader.replicas.enable                       boolean   false
fetch.purgatory.purge.interval.requests               int       1000
group.coordinator.append.linger.ms                    int       10
group.coordinator.threads                             int       1
group.share.max.groups                                short     10
kafka.metrics.polling.interval.secs                   int       10
kafka.metrics.reporters                               list      ""
log.cleaner.io.buffer.size                            int       524288
log.dir.failure.timeout.ms                            long      30000
log.flush.scheduler.interval.ms                       long      9223372036854775807
metric.reporters                                      list      ""
metrics.num.samples                                   int       2
metrics.recording.level                               string    INFO
metrics.sample.window.ms                              long      30000
num.io.threads                                        int       8
num.network.threads                                   int       3
num.replica.alter.log.dirs.threads                    int       null
num.replica.fetchers                                  int       1
offsets.commit.required.acks                          short     -1
offsets.load.buffer.size                              int       5242880
principal.builder.class                               class     {principal_builder}
producer.purgatory.purge.interval.requests            int       1000
queued.max.requests                                   int       500
remote.log.metadata.manager.class.path                string    null
remote.log.metadata.manager.listener.name             string    null
remote.log.storage.manager.class.path                 string    null
replica.socket.receive.buffer.bytes                   int       65536
request.timeout.ms                                    int       30000
sasl.client.callback.handler.class                    class     null
sasl.jaas.config                                      password  null
sasl.kerberos.kinit.cmd                               string    /usr/bin/kinit
sasl.kerberos.min.time.before.relogin                 long      60000
sasl.kerberos.principal.to.local.rules                list      DEFAULT
sasl.kerberos.service.name                            string    null
sasl.kerberos.ticket.renew.jitter                     double    0.05
sasl.kerberos.ticket.renew.window.factor              double    0.8
sasl.login.callback.handler.class                     class     null
sasl.login.class                                      class     null
sasl.login.connect.timeout.ms                         int       null
sasl.login.read.timeout.ms                            int       null
sasl.login.refresh.buffer.seconds                     short     300
sasl.login.refresh.min.period.seconds                 short     60
sasl.login.refresh.window.factor                      double    0.8
sasl.login.refresh.window.jitter                      double    0.05
sasl.login.retry.backoff.max.ms                       long      10000
sasl.login.retry.backoff.ms                           long      100
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms   long      10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms       long      100
sasl.server.callback.handler.class                    class     null
security.providers                                    string    null
socket.connection.setup.timeout.max.ms                long      30000
socket.connection.setup.timeout.ms                    long      10000
socket.listen.backlog.size                            int       50
socket.receive.buffer.bytes                           int       102400
socket.send.buffer.bytes                              int       102400
ssl.allow.dn.changes                                  boolean   false
ssl.allow.san.changes                                 boolean   false
ssl.engine.factory.class                              class     null
ssl.keymanager.algorithm                              string    SunX509
ssl.protocol                                          string    TLSv1.3
ssl.provider                                          string    null
ssl.secure.random.implementation                      string    null
ssl.trustmanager.algorithm                            string    PKIX
telemetry.max.bytes                                   int       1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms  int  10000
transaction.state.log.load.buffer.size                int       5242880
zookeeper.clientCnxnSocket                            string    null
zookeeper.max.in.flight.requests                      int       10
zookeeper.metadata.migration.enable                   boolean   false
zookeeper.ssl.cipher.suites                           list      null
zookeeper.ssl.crl.enable                              boolean   false
zookeeper.ssl.enabled.protocols                       list      null
zookeeper.ssl.ocsp.enable                             boolean   false
zookeeper.ssl.protocol                                string    TLSv1.2
""".format(
    principal_builder=(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    ),
)
"""One setting a line: its name, Kafka's type, and its default as DescribeConfigs writes it."""


@cache
def kafka_settings() -> dict[str, Setting]:
    """The rows by name; a default is the text that Kafka gives, whatever the type."""
    return {row.name: row for row in map(_row, KAFKA_SETTINGS.split("\n")[1:-1])}


def _row(line: str) -> Setting:
    name, kind, default = line.split()
    return Setting(
        name=name,
        kind=kind,
        default=None if default == "null" else default.strip('"'),
        doc=f"No effect here: {reason_of(name)}.",
        is_dynamic=name in DYNAMIC_WITHOUT_EFFECT,
    )
