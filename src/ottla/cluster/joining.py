"""Starts a broker as a member of its cluster: its identity, its registration and its threads.

The order is Kafka's: cluster id and broker id are known before a directory is opened, and the
broker registers once it listens; from then on it gets requests of the controller. Kafka's
counterpart: `KafkaServer.startup`.
"""

from collections.abc import Callable, Iterable, Mapping
from secrets import token_bytes

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, UserError
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.configs.encoded_passwords import KeptPasswords
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.control.registered_access import (
    RegisteredAccess,
    found_clients,
    found_rules,
)
from ottla.broker.replicas.replicas import Replicas
from ottla.cluster.access import Access
from ottla.cluster.controller_channel import ControllerChannels
from ottla.cluster.controller_link import ControllerLink, LinkParts
from ottla.cluster.exchanges import exchanges_of
from ottla.cluster.internal_topics import new_topic
from ottla.cluster.member import GENERATED_ID, Callbacks, ClusterMember, MemberOptions
from ottla.cluster.membership import ClusterMembership
from ottla.cluster.orders import OrderWriter
from ottla.cluster.place import Place
from ottla.cluster.running import Running
from ottla.config.broker import BrokerConfig
from ottla.config.inter_broker_version import InterBrokerVersion, parse_inter_broker_version
from ottla.controller.acls import FoundAcls, read_all_acls
from ottla.controller.operations import Steps
from ottla.controller.parts import ControllerOptions
from ottla.controller.settings import Settings, change_settings, read_clients, read_settings
from ottla.controller.tokens import FoundTokens, read_all_tokens
from ottla.metadata.brokers import BrokerRegistration
from ottla.storage.files.meta_properties import MetaProperties
from ottla.zookeeper.paths import DEFAULT_ENTITY

TOPICS, BROKERS = "topics/", "brokers/"
ZOOKEEPER = "ZooKeeper"


def inter_broker_version(config: BrokerConfig) -> InterBrokerVersion:
    """The inter-broker version; raises `UserError` if it does not exist with ZooKeeper."""
    try:
        return parse_inter_broker_version(config.inter_broker_protocol_version)
    except ValueError as error:
        raise UserError(
            f"inter.broker.protocol.version={config.inter_broker_protocol_version}: {error}"
        ) from error


class ClusterBroker:
    """The broker in its cluster, from `join` to `stop`; `complain` reports one line to people."""

    def __init__(
        self,
        config: BrokerConfig,
        known: MetaProperties | None,
        clock: Clock,
        new_cluster_id: Callable[[], str],
        complain: Callable[[str], None],
        access: Access | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._complain = complain
        self._version = inter_broker_version(config)
        self._passwords = KeptPasswords(config, token_bytes)
        self._running: Running | None = None
        self._has_rules = False
        self._member = ClusterMember(
            self._member_options(known, access),
            Callbacks(
                fenced=self._fenced,
                registered=self._registered,
                send=lambda outgoing, brokers: self._parts.channels.send(outgoing, brokers),
                configured=self.configured,
                ruled=self.ruled,
                tokens_changed=self.tokens_changed,
                complain=complain,
            ),
            clock,
            new_cluster_id,
        )
        self.membership = ClusterMembership(self._member, lambda: self._parts, self)

    def _member_options(self, known: MetaProperties | None, access: Access | None) -> MemberOptions:
        """The options of the member; raises `UserError`."""
        config = self._config
        broker_id = config.wanted_node_id
        if broker_id is None and known is not None:
            broker_id = known.node_id
        if broker_id is None and not config.broker_id_generation_enable:
            raise UserError(
                "broker.id is not given, and broker.id.generation.enable=false; set broker.id"
            )
        return MemberOptions(
            connect=config.zookeeper_connect or "",
            access=access,
            broker_id=GENERATED_ID if broker_id is None else broker_id,
            cluster_id=None if known is None else known.cluster_id,
            controller=ControllerOptions(
                broker_id=GENERATED_ID,
                version=self._version,
                is_unclean=config.topic_defaults.unclean_leader_election_enable,
                deletes_topics=config.delete_topic_enable,
                imbalance_percentage=config.leader_imbalance_per_broker_percentage,
            ),
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms,
            has_acls=config.has_authorizer,
            has_tokens=bool(config.token_secret),
            reserved_max_id=config.reserved_broker_max_id,
        )

    @property
    def broker_id(self) -> int:
        return self._member.broker_id

    @property
    def cluster_id(self) -> str:
        return self._member.cluster_id

    @property
    def _parts(self) -> Running:
        assert self._running is not None, "call start first"
        return self._running

    def join(self) -> None:
        """Connects and determines cluster id and broker id; raises `UserError`."""
        self._member.join()

    def start(self, broker: Broker, place: Place) -> None:
        """Registers a broker that listens; raises `UserError`."""
        replicas = broker.replicas
        assert isinstance(replicas, Replicas), "assembled as one of a cluster"
        link = ControllerLink(self._link_parts(replicas, place))
        self._running = Running(
            broker=broker,
            replicas=replicas,
            access=RegisteredAccess(broker.security, broker.admin),
            place=place,
            link=link,
            channels=ControllerChannels(
                OrderWriter(
                    controller_id=self.broker_id, version=self._version, listener=place.listener
                ),
                place.control_connect,
                place.control_listener,
                self._member.post,
            ),
            exchanges=exchanges_of(broker, place, self._clock, lambda: self._version),
        )
        self._member.start(
            BrokerRegistration(endpoints=place.endpoints, rack=self._config.broker_rack or None)
        )
        link.start()

    def _link_parts(self, replicas: Replicas, place: Place) -> LinkParts:
        config = self._config
        interval_ms = config.leader_imbalance_check_interval_seconds * 1000.0
        return LinkParts(
            member=self._member,
            replicas=replicas,
            lock=place.lock,
            connect=place.connect,
            clock=self._clock,
            version=self._version,
            listener=place.listener,
            wake=place.wake,
            new_topic=lambda name: new_topic(name, config),
            complain=self._complain,
            rebalance_interval_ms=interval_ms if config.auto_leader_rebalance_enable else None,
            token_check_interval_ms=config.delegation_token_expiry_check_interval_ms
            if config.token_secret
            else None,
        )

    def leave(self) -> None:
        """Moves leaderships to other brokers; this broker serves until they have moved or it gives
        up.
        """
        config = self._config
        if config.controlled_shutdown_enable and not self._parts.link.leave(
            tries=config.controlled_shutdown_max_retries,
            backoff_s=config.controlled_shutdown_retry_backoff_ms / 1000,
        ):
            self._complain("stopping without a controlled shutdown: not all leaderships have moved")

    def stop(self) -> None:
        """Ends all threads and the session, which removes the broker's node. Not under the broker's
        lock.
        """
        if self._running is not None:
            self._running.link.stop()
            self._running.exchanges.stop()
        self._member.stop()
        if self._running is not None:
            self._running.channels.stop()

    # Called by the member's threads

    def _fenced(self) -> None:
        place = self._parts.place
        with place.lock:
            self._parts.replicas.fence()
        place.wake()

    def _registered(self, broker_epoch: int) -> None:
        """Reads everything that may have changed without a session; raises `SessionLostError`."""
        parts = self._parts
        with parts.place.lock:
            parts.replicas.registered(broker_epoch)
            entities = [f"{TOPICS}{one.name}" for one in parts.broker.topics]
        self._read_access(parts)
        entities += [f"{BROKERS}{DEFAULT_ENTITY}", f"{BROKERS}{self.broker_id}"]
        self._member.run(lambda: read_settings(entities), self.configured)
        if self._passwords.may_renew:
            self._member.run(self._renew_passwords, lambda _: None)

    def _read_access(self, parts: Running) -> None:
        """Reads users, quotas, tokens and access rules before clients are admitted.

        Raises `UserError` if the rules are not readable, unless rules have been read before.
        """
        clients = found_clients(self._member.read(read_clients()))
        self._complain_of(clients.errors)
        with parts.place.lock:
            parts.access.take_clients(clients)
        if self._config.token_secret:
            tokens = self._member.read(read_all_tokens())
            with parts.place.lock:
                parts.access.take_tokens(tokens)
        if self._config.has_authorizer:
            self._read_rules(parts)

    def _read_rules(self, parts: Running) -> None:
        rules = found_rules(self._member.read(read_all_acls()))
        if rules.errors and not self._has_rules:
            raise UserError(
                f"zookeeper.connect={self._config.zookeeper_connect}: {rules.errors[0]}; correct "
                "or delete the node, because without it access might be granted by mistake"
            )
        self._complain_of(rules.errors)
        with parts.place.lock:
            parts.access.take_rules(rules)
        self._has_rules = True

    def _complain_of(self, errors: Iterable[str]) -> None:
        for one in errors:
            self._complain(one)

    # Called for changes in ZooKeeper (`cluster/membership.py: Follow`)

    def configured(self, settings: Settings) -> None:
        parts = self._parts
        clients = found_clients(settings)
        self._complain_of(clients.errors)
        if clients.quotas:
            with parts.place.lock:
                parts.access.follow_clients(clients)
        for entity, values in settings.items():
            meant = self._with_plain_passwords(entity, values)
            try:
                with parts.place.lock:
                    self._configure(entity, meant)
            except ApiError as error:
                self._complain(f"/config/{entity} in ZooKeeper: {error.message or error.code.name}")

    def _with_plain_passwords(self, entity: str, values: Mapping[str, str]) -> Mapping[str, str]:
        """Decrypts this broker's passwords; other brokers may use another secret."""
        if entity != f"{BROKERS}{self.broker_id}":
            return values
        meant, unread = self._passwords.meant(values)
        for name, reason in unread.items():
            self._complain(f"/config/{entity} in ZooKeeper: {name} is left out: {reason}")
        return meant

    def _renew_passwords(self) -> Steps[None]:
        """Encrypts with the current secret the passwords that the old one encrypted."""
        entity = f"{BROKERS}{self.broker_id}"
        found = yield from read_settings([entity])
        known = found.get(entity, {})
        if self._passwords.renewed(known) != known:
            yield from change_settings(entity, self._passwords.renewed)

    def ruled(self, found: FoundAcls) -> None:
        rules = found_rules(found)
        self._complain_of(rules.errors)
        with self._parts.place.lock:
            self._parts.access.follow_rules(rules)

    def tokens_changed(self, found: FoundTokens) -> None:
        with self._parts.place.lock:
            self._parts.access.follow_tokens(found)

    def _configure(self, entity: str, values: Mapping[str, str]) -> None:
        """Applies settings; raises `ApiError` if a broker's are invalid."""
        broker = self._parts.broker
        if entity.startswith(TOPICS):
            name = entity.removeprefix(TOPICS)
            if broker.topics.find(name) is not None:
                broker.unconfirmed.forget(name)
                broker.admin.follow_topic(name, values, ZOOKEEPER)
            return
        changes = [ConfigChange(name=name, value=value) for name, value in values.items()]
        alteration = Alteration(changes=changes, is_whole=True, by=ZOOKEEPER)
        if entity == f"{BROKERS}{DEFAULT_ENTITY}":
            broker.admin.alter_broker(ConfigSource.ALL_BROKERS, alteration)
        elif entity == f"{BROKERS}{self.broker_id}":
            broker.admin.alter_broker(ConfigSource.BROKER, alteration)
