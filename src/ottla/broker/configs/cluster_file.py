"""Settings of brokers and groups, and quotas, that clients have changed at run time.

Format page: docs/format/ottla-cluster.md. Kafka keeps them in its metadata log; Ottla in one small
file per log directory, which Kafka ignores. The file is replaced as a whole, so a crash leaves the
old content or the new. When directories disagree the highest revision is right.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ottla.base.files import FileSystem, join
from ottla.base.json_files import Members, texts
from ottla.base.turns import sorted_in_turns
from ottla.base.values import dataclass
from ottla.broker.revised_state import RevisedState, StateFile, read_state_file
from ottla.config.any_setting import is_sensitive, setting_row

CLUSTER_FILE_NAME = "ottla-cluster.json"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The entity of a quota: pairs of type and name, sorted by type. A name of `None` is the default of
its type.
"""

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState(RevisedState):
    """`default_configs` apply to every broker of the cluster, `broker_configs` to this one.

    `group_configs` maps groups to their settings, `client_metrics` subscriptions to clients'
    metrics to theirs; no entry is empty.
    """

    default_configs: Mapping[str, str] = field(default_factory=dict)
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)


def read_cluster_file(file_system: FileSystem, directory: str) -> ClusterState:
    """Returns the content, nothing without a file; raises `CorruptionError`."""
    path = join(directory, CLUSTER_FILE_NAME)
    return read_state_file(file_system, path, _parse, "the state of a cluster") or ClusterState()


def _fields(state: ClusterState) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "default_broker_configs": dict(sorted(state.default_configs.items())),
        "broker_configs": dict(sorted(state.broker_configs.items())),
        "client_quotas": map(_quota_fields, sorted_in_turns(state.quotas.items(), repr)),
    }
    for name, configs in (
        ("group_configs", state.group_configs),
        ("client_metrics", state.client_metrics),
    ):
        if configs:
            fields[name] = _members(configs)
    return fields


def _members(configs: Mapping[str, Mapping[str, str]]) -> Members:
    return Members(
        (name, dict(sorted(values.items())))
        for name, values in sorted_in_turns(configs.items(), _name)
    )


def _name(item: tuple[str, Any]) -> str:
    return item[0]


def _is_secret(state: ClusterState) -> bool:
    """Whether the state contains passwords or keys."""
    return any(map(_is_secret_setting, [*state.default_configs, *state.broker_configs]))


def _is_secret_setting(name: str) -> bool:
    return is_sensitive(setting_row(name))


def quota_fields(quotas: Quotas) -> list[dict[str, Any]]:
    return [_quota_fields(one) for one in sorted(quotas.items(), key=repr)]


def _quota_fields(quota: tuple[QuotaEntity, Mapping[str, float]]) -> dict[str, Any]:
    entity, values = quota
    return {"entity": dict(entity), "quotas": dict(sorted(values.items()))}


def parse_quotas(fields: Any) -> dict[QuotaEntity, dict[str, float]]:
    """The inverse of `quota_fields`; raises errors that `read_json_file` reports as damage."""
    return dict(map(_parse_quota, fields))


def quota_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    return tuple(sorted(names.items()))


def _parse(content: Any) -> ClusterState:
    return ClusterState(
        revision=content["revision"],
        default_configs=texts(content["default_broker_configs"]),
        broker_configs=texts(content["broker_configs"]),
        group_configs=_configs(content.get("group_configs", {})),
        client_metrics=_configs(content.get("client_metrics", {})),
        quotas=parse_quotas(content["client_quotas"]),
    )


def _configs(content: Any) -> dict[str, dict[str, str]]:
    return {name: texts(values) for name, values in content.items()}


def _parse_quota(fields: Any) -> tuple[QuotaEntity, dict[str, float]]:
    names = fields["entity"]
    if not all(name is None or isinstance(name, str) for name in names.values()):
        raise TypeError("the names of an entity must be texts or null")
    return quota_entity(names), {key: float(value) for key, value in fields["quotas"].items()}


CLUSTER_FILE = StateFile(
    name=CLUSTER_FILE_NAME,
    read=read_cluster_file,
    fields=_fields,
    is_secret=_is_secret,
    fix="restore the file, or move it away with ottla-cluster.written",
)
