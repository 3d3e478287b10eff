"""What clients have changed while the broker ran and that no topic owns: settings and quotas.

Format page: docs/format/ottla-cluster.md. Kafka keeps this in its metadata log; Ottla in one small
file per log directory, which Kafka ignores. It is replaced whole, so a crash leaves the old content
or the new. When directories disagree the highest revision is right.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file, replace_file

CLUSTER_FILE_NAME = "ottla-cluster.json"
FORMAT_VERSION = 1

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: pairs of type and name in order of type; a name of `None` is "any other"."""

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """`default_configs` hold for every broker of the cluster, `broker_configs` for this one.

    `group_configs` are by group; none has an empty entry.
    """

    revision: int = 0
    default_configs: Mapping[str, str] = field(default_factory=dict)
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)


def read_cluster_file(file_system: FileSystem, directory: str) -> ClusterState:
    """What the file says, nothing when there is none; raises `CorruptionError`."""
    path = join(directory, CLUSTER_FILE_NAME)
    if file_system.status(path) is None:
        return ClusterState()
    content = read_file(file_system, path)
    try:
        return _parse(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(path, 0, f"not the state of a cluster ({error!r})") from error


def write_cluster_file(file_system: FileSystem, directory: str, state: ClusterState) -> None:
    """Replaces the file, durably."""
    fields: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "revision": state.revision,
        "default_broker_configs": dict(sorted(state.default_configs.items())),
        "broker_configs": dict(sorted(state.broker_configs.items())),
        "client_quotas": [
            {"entity": dict(entity), "quotas": dict(sorted(quotas.items()))}
            for entity, quotas in sorted(state.quotas.items(), key=repr)
        ],
    }
    if state.group_configs:
        fields["group_configs"] = {
            group_id: dict(sorted(values.items()))
            for group_id, values in sorted(state.group_configs.items())
        }
    text = json.dumps(fields, indent=1)
    replace_file(file_system, join(directory, CLUSTER_FILE_NAME), text.encode() + b"\n")


def newest(states: Iterable[ClusterState]) -> ClusterState:
    return max(states, key=lambda state: state.revision)


def quota_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    return tuple(sorted(names.items()))


def _parse(content: Any) -> ClusterState:
    if content["version"] != FORMAT_VERSION:
        raise ValueError(f"version {content['version']!r} is not {FORMAT_VERSION}")
    if not isinstance(content["revision"], int):
        raise TypeError("revision must be a number")
    return ClusterState(
        revision=content["revision"],
        default_configs=_texts(content["default_broker_configs"]),
        broker_configs=_texts(content["broker_configs"]),
        group_configs={
            group_id: _texts(values)
            for group_id, values in content.get("group_configs", {}).items()
        },
        quotas=dict(_parse_quotas(one) for one in content["client_quotas"]),
    )


def _texts(values: Any) -> dict[str, str]:
    if not all(isinstance(text, str) for text in values.values()):
        raise TypeError("the values of configs must be texts")
    return dict(values)


def _parse_quotas(fields: Any) -> tuple[QuotaEntity, dict[str, float]]:
    names = fields["entity"]
    if not all(name is None or isinstance(name, str) for name in names.values()):
        raise TypeError("the names of an entity must be texts or null")
    return quota_entity(names), {key: float(value) for key, value in fields["quotas"].items()}
