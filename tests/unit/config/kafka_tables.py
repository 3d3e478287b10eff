"""The settings of Kafka's brokers and topics: name, default and least value, a line each."""

KAFKA_BROKER = """
auto.create.topics.enable                                   True      -
auto.leader.rebalance.enable                                True      -
background.threads                                          10        1
broker.heartbeat.interval.ms                                2000      -
broker.id                                                   -1        -
broker.id.generation.enable                                 True      -
broker.session.timeout.ms                                   9000      -
connection.failed.authentication.delay.ms                   100       0
connections.max.idle.ms                                     600000    -
connections.max.reauth.ms                                   0         -
controlled.shutdown.enable                                  True      -
controlled.shutdown.max.retries                             3         -
controlled.shutdown.retry.backoff.ms                        5000      -
controller.quorum.append.linger.ms                          25        -
controller.quorum.election.backoff.max.ms                   1000      -
controller.quorum.election.timeout.ms                       1000      -
controller.quorum.fetch.timeout.ms                          2000      -
controller.quorum.request.timeout.ms                        2000      -
controller.quorum.retry.backoff.ms                          20        -
default.replication.factor                                  1         -
delegation.token.expiry.check.interval.ms                   3600000   1
delegation.token.expiry.time.ms                             86400000  1
delegation.token.max.lifetime.ms                            604800000 1
delete.topic.enable                                         True      -
fetch.max.bytes                                             57671680  1024
group.consumer.heartbeat.interval.ms                        5000      1
group.consumer.max.heartbeat.interval.ms                    15000     1
group.consumer.max.session.timeout.ms                       60000     1
group.consumer.max.size                                     int       1
group.consumer.min.heartbeat.interval.ms                    5000      1
group.consumer.min.session.timeout.ms                       45000     1
group.consumer.session.timeout.ms                           45000     1
group.initial.rebalance.delay.ms                            3000      -
group.max.session.timeout.ms                                1800000   -
group.max.size                                              int       1
group.min.session.timeout.ms                                6000      -
group.share.assignment.interval.ms                          1000      0
group.share.delivery.count.limit                            5         2
group.share.heartbeat.interval.ms                           5000      1
group.share.initialize.retry.interval.ms                    30000     1
group.share.max.assignment.interval.ms                      15000     0
group.share.max.delivery.count.limit                        10        2
group.share.max.heartbeat.interval.ms                       15000     1
group.share.max.partition.max.record.locks                  4000      100
group.share.max.record.lock.duration.ms                     60000     1000
group.share.max.session.timeout.ms                          60000     1
group.share.max.share.sessions                              2000      1
group.share.max.size                                        200       1
group.share.min.assignment.interval.ms                      0         0
group.share.min.delivery.count.limit                        2         2
group.share.min.heartbeat.interval.ms                       5000      1
group.share.min.partition.max.record.locks                  100       100
group.share.min.record.lock.duration.ms                     15000     1000
group.share.min.session.timeout.ms                          45000     1
group.share.partition.max.record.locks                      2000      100
group.share.record.lock.duration.ms                         30000     1000
group.share.session.timeout.ms                              45000     1
initial.broker.registration.timeout.ms                      60000     -
inter.broker.protocol.version                               3.9-IV0   -
leader.imbalance.check.interval.seconds                     300       1
leader.imbalance.per.broker.percentage                      10        -
log.cleaner.backoff.ms                                      15000     0
log.cleaner.dedupe.buffer.size                              134217728 -
log.cleaner.enable                                          True      -
log.cleaner.io.buffer.load.factor                           0.9       -
log.cleaner.io.max.bytes.per.second                         1.7976931348623157e+308 -
log.cleaner.threads                                         1         0
log.flush.offset.checkpoint.interval.ms                     60000     0
log.flush.start.offset.checkpoint.interval.ms               60000     0
log.initial.task.delay.ms                                   30000     0
log.retention.check.interval.ms                             300000    1
log.retention.hours                                         168       -
log.retention.minutes                                       None      -
log.roll.hours                                              168       1
log.roll.jitter.hours                                       0         0
max.connection.creation.rate                                int       0
max.connections                                             int       0
max.connections.per.ip                                      int       0
max.incremental.fetch.session.cache.slots                   1000      0
max.request.partition.size.limit                            2000      1
metadata.log.max.record.bytes.between.snapshots             20971520  1
metadata.log.max.snapshot.interval.ms                       3600000   0
metadata.log.segment.ms                                     604800000 -
metadata.max.idle.interval.ms                               500       0
metadata.max.retention.bytes                                104857600 -
metadata.max.retention.ms                                   604800000 -
node.id                                                     -1        -
num.partitions                                              1         1
num.recovery.threads.per.data.dir                           1         1
offset.metadata.max.bytes                                   4096      -
offsets.commit.timeout.ms                                   5000      1
offsets.retention.check.interval.ms                         600000    1
offsets.retention.minutes                                   10080     1
offsets.topic.compression.codec                             0         -
offsets.topic.num.partitions                                50        1
offsets.topic.replication.factor                            3         1
offsets.topic.segment.bytes                                 104857600 1
password.encoder.iterations                                 4096      1024
password.encoder.key.length                                 128       8
producer.id.expiration.check.interval.ms                    600000    1
producer.id.expiration.ms                                   86400000  1
queued.max.request.bytes                                    -1        -
quota.window.num                                            11        1
quota.window.size.seconds                                   1         1
remote.fetch.max.wait.ms                                    500       1
remote.log.index.file.cache.total.size.bytes                1073741824 1
remote.log.manager.copier.thread.pool.size                  -1        -1
remote.log.manager.copy.max.bytes.per.second                long      1
remote.log.manager.copy.quota.window.num                    11        1
remote.log.manager.copy.quota.window.size.seconds           1         1
remote.log.manager.expiration.thread.pool.size              -1        -1
remote.log.manager.fetch.max.bytes.per.second               long      1
remote.log.manager.fetch.quota.window.num                   11        1
remote.log.manager.fetch.quota.window.size.seconds          1         1
remote.log.manager.task.interval.ms                         30000     1
remote.log.manager.task.retry.backoff.max.ms                30000     1
remote.log.manager.task.retry.backoff.ms                    500       1
remote.log.manager.task.retry.jitter                        0.2       0
remote.log.manager.thread.pool.size                         10        1
remote.log.metadata.custom.metadata.max.bytes               128       0
remote.log.reader.max.pending.tasks                         100       1
remote.log.reader.threads                                   10        1
remote.log.storage.system.enable                            False     -
replica.fetch.backoff.ms                                    1000      0
replica.fetch.max.bytes                                     1048576   0
replica.fetch.min.bytes                                     1         -
replica.fetch.response.max.bytes                            10485760  0
replica.fetch.wait.max.ms                                   500       -
replica.high.watermark.checkpoint.interval.ms               5000      -
replica.lag.time.max.ms                                     30000     -
replica.socket.timeout.ms                                   30000     -
replication.quota.window.num                                11        1
replication.quota.window.size.seconds                       1         1
reserved.broker.max.id                                      1000      0
sasl.server.max.receive.size                                524288    -
socket.request.max.bytes                                    104857600 1
transaction.max.timeout.ms                                  900000    1
transaction.partition.verification.enable                   True      -
transaction.remove.expired.transaction.cleanup.interval.ms  3600000   1
transaction.state.log.min.isr                               2         1
transaction.state.log.num.partitions                        50        1
transaction.state.log.replication.factor                    3         1
transaction.state.log.segment.bytes                         104857600 1
transactional.id.expiration.ms                              604800000 1
zookeeper.session.timeout.ms                                18000     -
zookeeper.set.acl                                           False     -
"""
"""A setting of Kafka 3.9's brokers a line: name, default, and least value (`-` for no bound)."""

KAFKA_TOPIC = """
compression.gzip.level               -1         -1
compression.lz4.level                9          1
compression.type                     producer   -
compression.zstd.level               3          -131072
delete.retention.ms                  86400000   0
file.delete.delay.ms                 60000      0
flush.messages                       long       1
flush.ms                             long       0
index.interval.bytes                 4096       0
local.retention.bytes                -2         -2
local.retention.ms                   -2         -2
max.compaction.lag.ms                long       1
max.message.bytes                    1048588    0
message.downconversion.enable        True       -
message.format.version               3.0-IV1    -
message.timestamp.after.max.ms       long       0
message.timestamp.before.max.ms      long       0
message.timestamp.difference.max.ms  long       0
message.timestamp.type               CreateTime -
min.cleanable.dirty.ratio            0.5        0
min.compaction.lag.ms                0          0
min.insync.replicas                  1          1
preallocate                          False      -
remote.copy.lag.bytes                -1         -1
remote.copy.lag.ms                   0          -1
remote.log.copy.disable              False      -
remote.log.delete.on.disable         False      -
remote.storage.enable                False      -
retention.bytes                      -1         -
retention.ms                         604800000  -1
segment.bytes                        1073741824 14
segment.index.bytes                  10485760   4
segment.jitter.ms                    0          0
segment.ms                           604800000  1
unclean.leader.election.enable       False      -
"""

KAFKA_SECURITY = """
connections.max.reauth.ms                             long      0              -
delegation.token.expiry.check.interval.ms             long      3600000        1
delegation.token.expiry.time.ms                       long      86400000       1
delegation.token.master.key                           password  None           -
delegation.token.max.lifetime.ms                      long      604800000      1
delegation.token.secret.key                           password  None           -
password.encoder.old.secret                           password  None           -
password.encoder.secret                               password  None           -
sasl.client.callback.handler.class                    class     None           -
sasl.enabled.mechanisms                               list      GSSAPI         -
sasl.jaas.config                                      password  None           -
sasl.kerberos.kinit.cmd                               string    /usr/bin/kinit -
sasl.kerberos.min.time.before.relogin                 long      60000          -
sasl.kerberos.principal.to.local.rules                list      DEFAULT        -
sasl.kerberos.service.name                            string    None           -
sasl.kerberos.ticket.renew.jitter                     double    0.05           -
sasl.kerberos.ticket.renew.window.factor              double    0.8            -
sasl.login.callback.handler.class                     class     None           -
sasl.login.class                                      class     None           -
sasl.login.connect.timeout.ms                         int       None           -
sasl.login.read.timeout.ms                            int       None           -
sasl.login.refresh.buffer.seconds                     short     300            -
sasl.login.refresh.min.period.seconds                 short     60             -
sasl.login.refresh.window.factor                      double    0.8            -
sasl.login.refresh.window.jitter                      double    0.05           -
sasl.login.retry.backoff.max.ms                       long      10000          -
sasl.login.retry.backoff.ms                           long      100            -
sasl.mechanism.controller.protocol                    string    GSSAPI         -
sasl.mechanism.inter.broker.protocol                  string    GSSAPI         -
sasl.oauthbearer.clock.skew.seconds                   int       30             -
sasl.oauthbearer.expected.audience                    list      None           -
sasl.oauthbearer.expected.issuer                      string    None           -
sasl.oauthbearer.jwks.endpoint.refresh.ms             long      3600000        -
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms   long      10000          -
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms       long      100            -
sasl.oauthbearer.jwks.endpoint.url                    string    None           -
sasl.oauthbearer.scope.claim.name                     string    scope          -
sasl.oauthbearer.sub.claim.name                       string    sub            -
sasl.oauthbearer.token.endpoint.url                   string    None           -
sasl.server.callback.handler.class                    class     None           -
sasl.server.max.receive.size                          int       524288         -
ssl.key.password                                      password  None           -
ssl.keystore.certificate.chain                        password  None           -
ssl.keystore.key                                      password  None           -
ssl.keystore.password                                 password  None           -
ssl.truststore.certificates                           password  None           -
ssl.truststore.password                               password  None           -
zookeeper.ssl.keystore.password                       password  None           -
zookeeper.ssl.truststore.password                     password  None           -
"""
"""A setting of logins, or a secret: name, type, default, and least value."""
