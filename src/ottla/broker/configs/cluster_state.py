"""Settings of brokers and groups, and quotas, that clients have changed at run time."""

from collections.abc import Mapping
from dataclasses import field

from ottla.base.values import dataclass
from ottla.metadata.quotas import Quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """`default_configs` apply to every broker of the cluster, `broker_configs` to this one.

    `group_configs` maps groups to their settings, `client_metrics` subscriptions to clients'
    metrics to theirs; no entry is empty.
    """

    default_configs: Mapping[str, str] = field(default_factory=dict)
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)
