"""The settings of a broker in a cluster over ZooKeeper, with Kafka's names and defaults.

They have no effect on a broker without a cluster. Kafka's counterparts: `ZkConfigs`,
`ReplicationConfigs`, `ServerConfigs`.
"""

from typing import Final

from ottla.base.values import dataclass
from ottla.config.quorum import QUORUM_SETTINGS, QuorumConfig
from ottla.config.setting import setting, settings_of
from ottla.config.tiering import TieringConfig
from ottla.config.tls import STORE_TYPES


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClusterConfig(QuorumConfig):
    """Attributes are Kafka's names with underscores."""

    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable",
        "boolean",
        True,
        "Whether the controller returns leadership of partitions to their preferred brokers.",
        is_dynamic=False,
    )
    broker_id_generation_enable: bool = setting(
        "broker.id.generation.enable",
        "boolean",
        True,
        "Whether a broker without broker.id gets an id from ZooKeeper.",
        is_dynamic=False,
    )
    broker_rack: str | None = setting(
        "broker.rack",
        "string",
        None,
        "Rack of the broker; replicas are spread over racks, and consumers may read from a nearby "
        "one.",
        is_dynamic=False,
    )
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable",
        "boolean",
        True,
        "Whether a broker moves its leaderships to others before it stops.",
        is_dynamic=False,
    )
    controlled_shutdown_max_retries: int = setting(
        "controlled.shutdown.max.retries",
        "int",
        3,
        "How often a stopping broker asks the controller for that.",
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
    follower_fetch_last_tiered_offset_enable: bool = setting(
        "follower.fetch.last.tiered.offset.enable",
        "boolean",
        False,
        "Whether an empty follower begins with what is not in the remote tier yet, and not where "
        "the leader's local segments do (KIP-1023).",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds",
        "long",
        300,
        "How often the controller looks for partitions that are not led by their preferred "
        "brokers.",
        at_least=1,
        is_dynamic=False,
    )
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        "int",
        10,
        "Percentage of a broker's partitions that others may lead before leadership is returned.",
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
        "Bytes to fetch of one partition per request; a larger first batch is returned whole, and "
        "partitions that are far behind share half of replica.fetch.response.max.bytes.",
        at_least=0,
        is_dynamic=False,
    )
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes",
        "int",
        1,
        "Bytes that a leader waits for before it answers a follower.",
        at_least=0,
        is_dynamic=False,
    )
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        "int",
        10_485_760,
        "Maximum bytes of a response to a follower.",
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
        "Generated broker ids start above this one.",
        at_least=0,
        is_dynamic=False,
    )
    sasl_mechanism_inter_broker_protocol: str = setting(
        "sasl.mechanism.inter.broker.protocol",
        "string",
        "GSSAPI",
        "Mechanism by which this broker logs in to others over a SASL_PLAINTEXT or SASL_SSL "
        "listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; Kafka's default, GSSAPI, "
        "is not supported.",
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
        "Whether another broker's certificate must name the host by which it is reached: https, "
        "or none.",
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
        "Cipher that encrypts passwords among a broker's settings in ZooKeeper.",
        one_of=("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"),
        is_dynamic=False,
    )
    password_encoder_iterations: int = setting(
        "password.encoder.iterations",
        "int",
        4096,
        "Number of iterations by which the key is derived from the secret.",
        at_least=1024,
        is_dynamic=False,
    )
    password_encoder_key_length: int = setting(
        "password.encoder.key.length",
        "int",
        128,
        "Length of the key in bits: 128, 192 or 256.",
        at_least=128,
        at_most=256,
        is_dynamic=False,
    )
    password_encoder_keyfactory_algorithm: str | None = setting(
        "password.encoder.keyfactory.algorithm",
        "string",
        None,
        "Algorithm that derives the key from the secret; PBKDF2WithHmacSHA512 if not set.",
        one_of=("PBKDF2WithHmacSHA1", "PBKDF2WithHmacSHA256", "PBKDF2WithHmacSHA512"),
        is_dynamic=False,
    )
    password_encoder_old_secret: str | None = setting(
        "password.encoder.old.secret",
        "password",
        None,
        "The previous secret: values encrypted with it are re-encrypted when the broker starts.",
        is_dynamic=False,
    )
    password_encoder_secret: str | None = setting(
        "password.encoder.secret",
        "password",
        None,
        "Secret that encrypts passwords among a broker's settings in ZooKeeper; without it they "
        "cannot be changed there.",
        is_dynamic=False,
    )
    zookeeper_connect: str | None = setting(
        "zookeeper.connect",
        "string",
        None,
        "HOST:PORT,... of the cluster's ZooKeeper, followed by the chroot. Without it the broker "
        "runs without a cluster.",
        is_dynamic=False,
    )
    zookeeper_connection_timeout_ms: int | None = setting(
        "zookeeper.connection.timeout.ms",
        "int",
        None,
        "How long a broker waits for ZooKeeper when it starts; the session timeout if not set.",
        at_least=1,
        is_dynamic=False,
    )
    zookeeper_session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms",
        "int",
        18_000,
        "Time without a heartbeat after which a broker is considered dead.",
        at_least=1,
        is_dynamic=False,
    )
    zookeeper_set_acl: bool = setting(
        "zookeeper.set.acl",
        "boolean",
        False,
        "Whether nodes in ZooKeeper belong to the logged-in user: others can read them, except "
        "users, broker settings and tokens.",
        is_dynamic=False,
    )
    zookeeper_ssl_client_enable: bool = setting(
        "zookeeper.ssl.client.enable",
        "boolean",
        False,
        "Whether connections to ZooKeeper use TLS.",
        is_dynamic=False,
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "string",
        "HTTPS",
        "Whether ZooKeeper's certificate must name the host by which it is reached: https, or "
        "empty.",
        one_of=("HTTPS", "https", "none", ""),
        is_dynamic=False,
    )
    zookeeper_ssl_keystore_location: str | None = setting(
        "zookeeper.ssl.keystore.location",
        "string",
        None,
        "File with the key and certificate to present to ZooKeeper: PEM or PKCS12.",
        is_dynamic=False,
    )
    zookeeper_ssl_keystore_password: str | None = setting(
        "zookeeper.ssl.keystore.password",
        "password",
        None,
        "Password of the keystore, or of the key in it.",
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
        "File with the certificates that must have signed ZooKeeper's: PEM or PKCS12; by default "
        "those that the system trusts.",
        is_dynamic=False,
    )
    zookeeper_ssl_truststore_password: str | None = setting(
        "zookeeper.ssl.truststore.password",
        "password",
        None,
        "Password of the truststore.",
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


_SHARED: Final = settings_of(TieringConfig)
CLUSTER_SETTINGS: Final = frozenset(
    name for name in settings_of(ClusterConfig) if name not in {*_SHARED, *QUORUM_SETTINGS}
)
"""Settings that have no effect on a broker without a cluster."""

ZOOKEEPER_SETTINGS: Final = frozenset(
    name for name in CLUSTER_SETTINGS if name.startswith(("zookeeper.", "password.encoder."))
) | {"broker.id.generation.enable", "ottla.zookeeper.jaas.file", "reserved.broker.max.id"}
"""Those that only a cluster over ZooKeeper has."""
