"""The settings of a broker in a cluster over ZooKeeper, with Kafka's names and defaults.

A broker alone has no use for them. Kafka's counterparts: `ZkConfigs`, `ReplicationConfigs`,
`ServerConfigs`.
"""

from dataclasses import dataclass
from typing import Final

from ottla.config.replication import ReplicationConfig
from ottla.config.security import SecurityConfig
from ottla.config.setting import setting, settings_of
from ottla.config.tls import STORE_TYPES


# As of `NetworkConfig`, no method is made: only `BrokerConfig` is.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class ClusterConfig(ReplicationConfig):
    """Attributes are Kafka's names with underscores."""

    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable",
        "boolean",
        True,
        "Whether the controller gives brokers back the partitions that they are preferred to lead.",
        is_dynamic=False,
    )
    broker_id_generation_enable: bool = setting(
        "broker.id.generation.enable",
        "boolean",
        True,
        "Whether a broker without broker.id gets a number from ZooKeeper.",
        is_dynamic=False,
    )
    broker_rack: str | None = setting(
        "broker.rack",
        "string",
        None,
        "Where the broker stands; replicas are spread over racks, and consumers may read nearby.",
        is_dynamic=False,
    )
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable",
        "boolean",
        True,
        "Whether a broker has its partitions led by others before it stops.",
        is_dynamic=False,
    )
    controlled_shutdown_max_retries: int = setting(
        "controlled.shutdown.max.retries",
        "int",
        3,
        "How often the controller is asked for that.",
        at_least=1,
        is_dynamic=False,
    )
    controlled_shutdown_retry_backoff_ms: int = setting(
        "controlled.shutdown.retry.backoff.ms",
        "long",
        5000,
        "How long the broker waits before it asks again.",
        at_least=0,
        is_dynamic=False,
    )
    leader_imbalance_check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds",
        "long",
        300,
        "How often the controller looks for partitions that others than the preferred "
        "brokers lead.",
        at_least=1,
        is_dynamic=False,
    )
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        "int",
        10,
        "How many of a broker's partitions others may lead, in percent.",
        at_least=0,
        is_dynamic=False,
    )
    replica_fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms",
        "int",
        1000,
        "How long a partition is not fetched after an error.",
        at_least=0,
        is_dynamic=False,
    )
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        "int",
        1_048_576,
        "What is fetched of one partition at a time; a larger batch comes whole.",
        at_least=0,
        is_dynamic=False,
    )
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes",
        "int",
        1,
        "What a leader waits for before it answers a follower.",
        at_least=0,
        is_dynamic=False,
    )
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        "int",
        10_485_760,
        "What one answer to a follower has at most.",
        at_least=0,
        is_dynamic=False,
    )
    replica_fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms",
        "int",
        500,
        "How long a leader waits for new records before it answers a follower.",
        at_least=0,
        is_dynamic=False,
    )
    replica_socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms",
        "int",
        30_000,
        "How long a broker waits for another broker's answer.",
        at_least=1,
        is_dynamic=False,
    )
    reserved_broker_max_id: int = setting(
        "reserved.broker.max.id",
        "int",
        1000,
        "Generated broker ids begin after this one.",
        at_least=0,
        is_dynamic=False,
    )
    sasl_mechanism_inter_broker_protocol: str = setting(
        "sasl.mechanism.inter.broker.protocol",
        "string",
        "GSSAPI",
        "How this broker logs in to others over a listener of SASL_PLAINTEXT or SASL_SSL: PLAIN, "
        "SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; Kafka's default, GSSAPI, is left out.",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        "sasl.oauthbearer.token.endpoint.url",
        "string",
        None,
        "The file with the token by which this broker logs in to others: file:///PATH. It is read "
        "at each login.",
        is_dynamic=False,
    )
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm",
        "string",
        "https",
        "Whether the certificate of another broker must name the host that it is reached at: "
        "https, or none.",
        one_of=("https", "HTTPS", "none", ""),
    )
    ottla_zookeeper_jaas_file: str | None = setting(
        "ottla.zookeeper.jaas.file",
        "string",
        None,
        "JAAS file with the login to ZooKeeper (DigestLoginModule); without it the one that "
        "-Djava.security.auth.login.config in KAFKA_OPTS names.",
        is_dynamic=False,
    )
    password_encoder_cipher_algorithm: str = setting(
        "password.encoder.cipher.algorithm",
        "string",
        "AES/CBC/PKCS5Padding",
        "How passwords among the settings of a broker are encrypted in ZooKeeper.",
        one_of=("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"),
        is_dynamic=False,
    )
    password_encoder_iterations: int = setting(
        "password.encoder.iterations",
        "int",
        4096,
        "How often the secret is hashed to the key for that.",
        at_least=1024,
        is_dynamic=False,
    )
    password_encoder_key_length: int = setting(
        "password.encoder.key.length",
        "int",
        128,
        "Bits of that key: 128, 192 or 256.",
        at_least=128,
        at_most=256,
        is_dynamic=False,
    )
    password_encoder_keyfactory_algorithm: str | None = setting(
        "password.encoder.keyfactory.algorithm",
        "string",
        None,
        "How the key is derived from the secret; PBKDF2WithHmacSHA512 where it is not given.",
        one_of=("PBKDF2WithHmacSHA1", "PBKDF2WithHmacSHA256", "PBKDF2WithHmacSHA512"),
        is_dynamic=False,
    )
    password_encoder_old_secret: str | None = setting(
        "password.encoder.old.secret",
        "password",
        None,
        "The secret before: what was encrypted with it is encrypted again when the broker starts.",
        is_dynamic=False,
    )
    password_encoder_secret: str | None = setting(
        "password.encoder.secret",
        "password",
        None,
        "What passwords among the settings of a broker are encrypted with in ZooKeeper; without it "
        "they cannot be changed there.",
        is_dynamic=False,
    )
    zookeeper_connect: str | None = setting(
        "zookeeper.connect",
        "string",
        None,
        "HOST:PORT,... of the ZooKeeper with the cluster's registries, and the chroot "
        "after it. Without it the broker is alone.",
        is_dynamic=False,
    )
    zookeeper_connection_timeout_ms: int | None = setting(
        "zookeeper.connection.timeout.ms",
        "int",
        None,
        "How long a broker waits for ZooKeeper when it starts; the session's timeout "
        "where it is not given.",
        at_least=1,
        is_dynamic=False,
    )
    zookeeper_session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms",
        "int",
        18_000,
        "After how long without a sign of life a broker counts as dead.",
        at_least=1,
        is_dynamic=False,
    )
    zookeeper_set_acl: bool = setting(
        "zookeeper.set.acl",
        "boolean",
        False,
        "Whether nodes in ZooKeeper belong to who has logged in: others may read them, but not "
        "users, settings of brokers and tokens.",
        is_dynamic=False,
    )
    zookeeper_ssl_client_enable: bool = setting(
        "zookeeper.ssl.client.enable",
        "boolean",
        False,
        "Whether ZooKeeper is spoken to by TLS.",
        is_dynamic=False,
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "string",
        "HTTPS",
        "Whether the certificate of ZooKeeper must name the host that it is reached at: https, or "
        "empty.",
        one_of=("HTTPS", "https", "none", ""),
        is_dynamic=False,
    )
    zookeeper_ssl_keystore_location: str | None = setting(
        "zookeeper.ssl.keystore.location",
        "string",
        None,
        "The file of the key and certificate that ZooKeeper is shown: PEM or PKCS12.",
        is_dynamic=False,
    )
    zookeeper_ssl_keystore_password: str | None = setting(
        "zookeeper.ssl.keystore.password",
        "password",
        None,
        "The password of that file, or of the key in it.",
        is_dynamic=False,
    )
    zookeeper_ssl_keystore_type: str | None = setting(
        "zookeeper.ssl.keystore.type",
        "string",
        None,
        "The format of that file, which it shows by itself.",
        one_of=STORE_TYPES,
        is_dynamic=False,
    )
    zookeeper_ssl_truststore_location: str | None = setting(
        "zookeeper.ssl.truststore.location",
        "string",
        None,
        "The file of the certificates that ZooKeeper's must be signed by: PEM or PKCS12; without "
        "it those that the system trusts.",
        is_dynamic=False,
    )
    zookeeper_ssl_truststore_password: str | None = setting(
        "zookeeper.ssl.truststore.password",
        "password",
        None,
        "The password of that file.",
        is_dynamic=False,
    )
    zookeeper_ssl_truststore_type: str | None = setting(
        "zookeeper.ssl.truststore.type",
        "string",
        None,
        "The format of that file, which it shows by itself.",
        one_of=STORE_TYPES,
        is_dynamic=False,
    )


_SHARED: Final = settings_of(SecurityConfig)
CLUSTER_SETTINGS: Final = frozenset(
    name for name in settings_of(ClusterConfig) if name not in _SHARED
)
"""What means nothing to a broker alone."""
