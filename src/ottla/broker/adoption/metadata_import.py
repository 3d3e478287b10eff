"""Merges the image of a metadata log into the broker's own state: settings, quotas, ids.

Settings that Kafka has changed since the last import take Kafka's value; all others keep Ottla's.
Kafka's counterpart: `BrokerMetadataPublisher`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.broker.adoption.accepted_settings import (
    accepted_broker_configs,
    accepted_client_metrics,
    accepted_groups,
    accepted_quotas,
    accepted_topic_configs,
)
from ottla.broker.adoption.adoption_file import ImportedState
from ottla.broker.adoption.found_settings import FoundSettings
from ottla.broker.adoption.imported_security import with_imported
from ottla.broker.configs.cluster_file import ClusterState
from ottla.broker.configs.settings import ConfigSource
from ottla.config.topic import DECIDING
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.metadata.records import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE
from ottla.storage.files.topic_file import TopicEntry

NAMED_AT_MOST = 5

Configs = Mapping[str, str]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImport:
    """One import. `base` is what the last import found; `ids` are the topic ids on the disks."""

    image: MetadataImage
    sizes: Mapping[str, int]
    node: str
    ids: Mapping[str, set[Uuid | None]]
    found: FoundSettings

    @property
    def base(self) -> ImportedState:
        return self.found.adoption.imported

    @property
    def is_first(self) -> bool:
        return self.found.adoption.metadata_files is None

    def result(self) -> FoundSettings:
        topics = [one for one in self.image.topics.values() if self._is_here(one)]
        entries = dict(self.found.known.entries)
        unknown = dict(self.found.adoption.unknown)
        refusals: list[str] = []
        for topic in topics:
            values, refused = accepted_topic_configs(self._topic_values(topic))
            entries[topic.name] = self._entry(topic, values)
            unknown.pop(topic.name, None)
            refusals += [f"{name} of topic {topic.name}" for name in refused]
            if DECIDING & refused.keys():
                named = ", ".join(f"{name}={text}" for name, text in sorted(refused.items()))
                unknown[topic.name] = f"{named} is not supported"
        cluster, more = self._cluster()
        imported = imported_state(self.image, topics, self.node)
        adoption = replace(
            self.found.adoption,
            end_offset=self.image.end_offset,
            metadata_files=self.sizes,
            imported=imported,
            unknown=unknown,
        )
        return replace(
            self.found,
            known=replace(self.found.known, entries=entries),
            cluster=cluster,
            security=with_imported(self.found.security, self.image),
            adoption=adoption,
            next_producer_id=self.image.next_producer_id,
            is_import=True,
            lines=tuple(_lines(self.image, imported, [*refusals, *more])),
        )

    def _is_here(self, topic: TopicImage) -> bool:
        """Whether the directories hold a partition of the topic; other nodes may hold all."""
        ids = self.ids.get(topic.name)
        return ids is not None and (topic.topic_id in ids or ids == {None})

    def _topic_values(self, topic: TopicImage) -> dict[str, str]:
        entry = self.found.known.entries.get(topic.name)
        if entry is None or entry.topic_id != topic.topic_id:
            return dict(topic.configs)
        base = self.base.topics.get(topic.name, {})
        return self._merged(base, topic.configs, entry.overrides)

    def _merged(
        self, base: Mapping[Key, Value], theirs: Mapping[Key, Value], ours: Mapping[Key, Value]
    ) -> dict[Key, Value]:
        """Returns `ours` with all changes of `theirs` against `base`; at the first import, both."""
        if self.is_first:
            return {**theirs, **ours}
        merged = dict(ours)
        for name in {*base, *theirs}:
            if name in theirs and theirs[name] != base.get(name):
                merged[name] = theirs[name]
            elif name not in theirs:
                merged.pop(name, None)
        return merged

    def _entry(self, topic: TopicImage, values: Configs) -> TopicEntry:
        old = self.found.known.entries.get(topic.name)
        is_same = old is not None and old.topic_id == topic.topic_id
        return TopicEntry(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_count=max(
                topic.partition_count, old.partition_count if old is not None and is_same else 1
            ),
            overrides=values,
            revision=1 if old is None else old.revision + 1,
        )

    def _cluster(self) -> tuple[ClusterState, list[str]]:
        """Returns the cluster's state with the settings supported here, and the names of the
        others.
        """
        ours, base = self.found.cluster, self.base
        defaults, refused_defaults = accepted_broker_configs(
            self._merged(base.default_configs, self.image.broker_configs(), ours.default_configs),
            ConfigSource.ALL_BROKERS,
        )
        own, refused_own = accepted_broker_configs(
            self._merged(
                base.broker_configs, self.image.broker_configs(self.node), ours.broker_configs
            ),
            ConfigSource.BROKER,
        )
        quotas, refused_quotas = accepted_quotas(
            self._merged(base.quotas, self.image.quotas, ours.quotas)
        )
        groups, refused_groups = accepted_groups(
            self._merged(base.group_configs, _groups(self.image), ours.group_configs)
        )
        metrics, refused_metrics = accepted_client_metrics(
            self._merged(base.client_metrics, _client_metrics(self.image), ours.client_metrics)
        )
        state = replace(
            ours,
            default_configs=defaults,
            broker_configs=own,
            quotas=quotas,
            group_configs=groups,
            client_metrics=metrics,
        )
        refused = [*refused_quotas, *refused_groups, *refused_metrics]
        return state, [*refused_defaults, *refused_own, *refused]


def imported_state(image: MetadataImage, topics: Iterable[TopicImage], node: str) -> ImportedState:
    """Returns an image's content about one node and some topics, for the next import to compare
    with.
    """
    return ImportedState(
        topics={topic.name: topic.configs for topic in topics},
        default_configs=image.broker_configs(),
        broker_configs=image.broker_configs(node),
        group_configs=_groups(image),
        client_metrics=_client_metrics(image),
        quotas=image.quotas,
    )


def _groups(image: MetadataImage) -> dict[str, Configs]:
    return _configs_of(image, GROUP_RESOURCE)


def _client_metrics(image: MetadataImage) -> dict[str, Configs]:
    return _configs_of(image, CLIENT_METRICS_RESOURCE)


def _configs_of(image: MetadataImage, wanted: int) -> dict[str, Configs]:
    return {name: values for (kind, name), values in image.configs.items() if kind == wanted}


def _lines(image: MetadataImage, imported: ImportedState, refused: list[str]) -> Iterable[str]:
    settings = len(imported.default_configs) + len(imported.broker_configs)
    limits = sum(map(len, imported.quotas.values()))
    yield (
        f"imported from Kafka's metadata log up to offset {image.end_offset}: "
        f"{_counted(len(imported.topics), 'topic')} with ids and settings, "
        f"{_counted(settings, 'setting')} of brokers, {_counted(limits, 'quota')}, and the "
        f"next producer id, {image.next_producer_id}; server.properties is not imported (--config)"
    )
    if refused:
        more = f" and {len(refused) - NAMED_AT_MOST} more" if len(refused) > NAMED_AT_MOST else ""
        named = ", ".join(refused[:NAMED_AT_MOST])
        yield f"not imported, since they are not supported: {named}{more}"
    users, acls, tokens = (
        len(image.scram_credentials),
        len(image.acls),
        len(image.delegation_tokens),
    )
    if users or acls or tokens:
        yield (
            f"also imported: {_counted(users, 'SCRAM credential')}, {_counted(acls, 'ACL')}, "
            f"{_counted(tokens, 'delegation token')}; ACLs take effect if authorizer.class.name "
            "names an authorizer; otherwise every client may do everything"
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
