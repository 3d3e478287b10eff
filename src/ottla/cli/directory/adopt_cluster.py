"""`ottla adopt --zookeeper`: what a ZooKeeper has of a cluster, taken over into directories."""

from collections.abc import Mapping
from secrets import token_bytes

from ottla.broker.adoption.accepted_settings import accepted_quotas
from ottla.broker.broker import Broker
from ottla.broker.configs.encoded_passwords import KeptPasswords
from ottla.broker.configs.settings import ConfigSource, ScopedSetting
from ottla.cli.directory.adopt_sources import ClusterSettings, TopicSettings
from ottla.cli.output import Output
from ottla.cli.terminal import counted
from ottla.config.broker import topic_settings_by_broker_name
from ottla.config.security import STANDARD_AUTHORIZER
from ottla.config.topic import DECIDING


class TakingOver:
    """Takes over in two steps: the settings of brokers, from which those of topics follow, and the
    rest. What is set in the directories already stays.
    """

    def __init__(self, broker: Broker, cluster: ClusterSettings) -> None:
        self._broker = broker
        self._cluster = cluster
        self._setting_count = 0
        self._refused: list[str] = []
        """What has no effect here."""
        self._left_out = list(cluster.left_out)

    def take_configs(self) -> TopicSettings:
        """Takes the settings of all brokers and of this one; returns those of the topics.

        A refused setting by which a broker decides what topics keep becomes the topics' own, so
        that they stay unconfirmed. Raises `UserError`, `StorageError`.
        """
        theirs, node = self._cluster.broker_configs, str(self._broker.node_id)
        wanted = [
            *self._plain(ConfigSource.ALL_BROKERS, self._cluster.default_configs),
            *self._plain(ConfigSource.BROKER, theirs.get(node, {})),
        ]
        taken, refused = self._broker.admin.adopt_configs(wanted)
        self._setting_count = len(taken)
        self._refused += [f"{one.name} of {self._owner(one.scope)}" for one in refused]
        others = sorted(theirs.keys() - {node})
        if others:
            self._left_out.append(f"the settings of other brokers ({', '.join(others)})")
        deciding = self._deciding(refused)
        return {topic: {**deciding, **settings} for topic, settings in self._cluster.topics.items()}

    def _plain(self, scope: ConfigSource, kept: Mapping[str, str]) -> list[ScopedSetting]:
        """The settings with their passwords decrypted; those that cannot be are left out."""
        plain, unread = KeptPasswords(self._broker.settings.config, token_bytes).meant(kept)
        self._left_out += [
            f"{name} of {self._owner(scope)} ({reason}; give -o password.encoder.secret=SECRET of "
            "the cluster's server.properties)"
            for name, reason in sorted(unread.items())
        ]
        return [ScopedSetting(scope, name, value) for name, value in sorted(plain.items())]

    def _owner(self, scope: ConfigSource) -> str:
        return f"broker {self._broker.node_id}" if scope is ConfigSource.BROKER else "all brokers"

    def _deciding(self, refused: list[ScopedSetting]) -> dict[str, str]:
        rows = topic_settings_by_broker_name()
        named = {rows[one.name].name: one.value for one in refused if one.name in rows}
        return {name: value for name, value in named.items() if name in DECIDING}

    def take_the_rest(self, output: Output) -> None:
        """Takes quotas, users, ACLs, tokens, and the producer ids that are in use."""
        broker, cluster = self._broker, self._cluster
        quotas, refused = accepted_quotas(cluster.quotas)
        refused = [*self._refused, *refused]
        kept = broker.admin.adopt_quotas(quotas)
        broker.producer_ids.reserve_below(cluster.next_producer_id)
        broker.security.adopt(cluster.credentials, cluster.acls, cluster.tokens)
        users = sorted({user for user, _ in cluster.credentials})
        quota_count = sum(map(len, kept.values()))
        output.say(
            f"taken over from ZooKeeper: {counted(self._setting_count, 'setting')} of brokers, "
            f"{counted(quota_count, 'quota')}, {counted(len(users), 'user')} with passwords, "
            f"{counted(len(cluster.acls), 'ACL')}, "
            f"{counted(len(cluster.tokens), 'delegation token')}, and that the next producer id is "
            f"{cluster.next_producer_id}",
            {
                "type": "cluster",
                "broker_settings": self._setting_count,
                "quotas": quota_count,
                "refused": refused,
                "left_out": self._left_out,
                "next_producer_id": cluster.next_producer_id,
                "scram_users": users,
                "acls": len(cluster.acls),
                "delegation_tokens": len(cluster.tokens),
            },
        )
        if refused:
            output.say(f"not taken over, they have no effect here: {', '.join(refused)}")
        for one in self._left_out:
            output.say(f"not taken over: {one}")
        if cluster.tokens:
            output.say("tokens are valid with the cluster's delegation.token.secret.key")
        if cluster.acls and broker.security.authorizer is None:
            output.say(
                f"ACLs take effect if the broker has authorizer.class.name={STANDARD_AUTHORIZER}"
            )
