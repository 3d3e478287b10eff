"""The settings and quotas of a metadata image, and the records that change them.

What this broker does not know, such as a setting of a later Kafka, stays in the log unchanged: a
change names only what it changes. Kafka's counterparts: `ConfigurationControlManager`,
`ClientQuotaControlManager`.
"""

from collections.abc import Callable, Iterator, Mapping

from ottla.broker.configs.cluster_state import ClusterState
from ottla.broker.metadata.differences import differing
from ottla.metadata.image import ALL_BROKERS, Configs, MetadataImage
from ottla.metadata.image_changes import VersionedRecord, config_records, quota_records
from ottla.metadata.quotas import QuotaEntity
from ottla.metadata.records import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE


def cluster_state_of(image: MetadataImage, node_id: int) -> ClusterState:
    return ClusterState(
        default_configs=image.broker_configs(),
        broker_configs=image.broker_configs(str(node_id)),
        group_configs=_configs_of(image, GROUP_RESOURCE),
        client_metrics=_configs_of(image, CLIENT_METRICS_RESOURCE),
        quotas=image.quotas,
    )


def _configs_of(image: MetadataImage, wanted: int) -> dict[str, Configs]:
    return {name: values for (kind, name), values in image.configs.items() if kind == wanted}


def cluster_changes(
    node_id: int,
) -> Callable[[ClusterState, ClusterState], Iterator[VersionedRecord]]:
    """Returns what makes the records that change the settings and quotas of a cluster."""

    def changes(old: ClusterState, new: ClusterState) -> Iterator[VersionedRecord]:
        pairs = (
            (ALL_BROKERS, old.default_configs, new.default_configs),
            (str(node_id), old.broker_configs, new.broker_configs),
        )
        for name, before, after in pairs:
            yield from config_records(BROKER_RESOURCE, name, before, after)
        of_kinds = (
            (GROUP_RESOURCE, old.group_configs, new.group_configs),
            (CLIENT_METRICS_RESOURCE, old.client_metrics, new.client_metrics),
        )
        for kind, some, others in of_kinds:
            for name, before, after in differing(some, others, {}):
                yield from config_records(kind, name, before, after)
        yield from quota_changes(old.quotas, new.quotas)

    return changes


def quota_changes(
    old: Mapping[QuotaEntity, Mapping[str, float]], new: Mapping[QuotaEntity, Mapping[str, float]]
) -> Iterator[VersionedRecord]:
    for entity, before, after in differing(old, new, {}):
        yield from quota_records(entity, before, after)
