"""The import from another Kafka, and the topics with unknown settings.

Format page: docs/format/ottla-adoption.md. Each log directory that another Kafka wrote has one such
small file, which Kafka ignores. It is replaced as a whole, after everything that it describes is
durable, so a start after an earlier crash repeats the import. If directories disagree, the highest
revision is right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from ottla.base.files import FileSystem, join, replace_file
from ottla.base.json_files import texts
from ottla.base.values import dataclass
from ottla.broker.configs.cluster_file import Quotas, parse_quotas, quota_fields
from ottla.storage.files.summed_json import read_summed_json, summed_json
from ottla.storage.files.written_marks import mark_written

ADOPTION_FILE_NAME = "ottla-adoption.json"
Configs = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedState:
    """Settings as Kafka's metadata log had them, including those without effect here.

    The next import compares Kafka's values with these: equal values were not changed by Kafka.
    """

    topics: Mapping[str, Configs] = field(default_factory=dict)
    default_configs: Configs = field(default_factory=dict)
    broker_configs: Configs = field(default_factory=dict)
    group_configs: Mapping[str, Configs] = field(default_factory=dict)
    client_metrics: Mapping[str, Configs] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """`metadata_files` are names and sizes of the metadata log's files at the import.

    `unknown` maps each topic with unknown settings to the reason. Nothing in these topics is
    deleted or compacted.
    """

    revision: int = 0
    end_offset: int = 0
    metadata_files: Mapping[str, int] | None = None
    imported: ImportedState = field(default_factory=ImportedState)
    unknown: Mapping[str, str] = field(default_factory=dict)


def read_adoption_file(file_system: FileSystem, directory: str) -> Adoption:
    """Returns the content, or an empty `Adoption` without a file; raises `CorruptionError`."""
    path = join(directory, ADOPTION_FILE_NAME)
    return read_summed_json(file_system, path, _parse, "what was taken over") or Adoption()


def write_adoption_file(file_system: FileSystem, directory: str, adoption: Adoption) -> None:
    """Replaces the file durably."""
    imported = adoption.imported
    fields = {
        "revision": adoption.revision,
        "metadata_end_offset": adoption.end_offset,
        "metadata_files": None
        if adoption.metadata_files is None
        else dict(sorted(adoption.metadata_files.items())),
        "unknown": dict(sorted(adoption.unknown.items())),
        "topics": {
            name: dict(sorted(one.items())) for name, one in sorted(imported.topics.items())
        },
        "default_broker_configs": dict(sorted(imported.default_configs.items())),
        "broker_configs": dict(sorted(imported.broker_configs.items())),
        "group_configs": _sorted(imported.group_configs),
        "client_quotas": quota_fields(imported.quotas),
    }
    if imported.client_metrics:
        fields["client_metrics"] = _sorted(imported.client_metrics)
    content = b"".join(summed_json(fields))
    replace_file(file_system, join(directory, ADOPTION_FILE_NAME), content)
    mark_written(file_system, directory, ADOPTION_FILE_NAME)


def newest_adoption(adoptions: Iterable[Adoption]) -> Adoption:
    return max(adoptions, key=lambda one: one.revision, default=Adoption())


def _parse(content: Any) -> Adoption:
    files = content["metadata_files"]
    return Adoption(
        revision=int(content["revision"]),
        end_offset=int(content["metadata_end_offset"]),
        metadata_files=None
        if files is None
        else {str(name): int(size) for name, size in files.items()},
        unknown=texts(content["unknown"]),
        imported=ImportedState(
            topics=_all_texts(content["topics"]),
            default_configs=texts(content["default_broker_configs"]),
            broker_configs=texts(content["broker_configs"]),
            group_configs=_all_texts(content["group_configs"]),
            client_metrics=_all_texts(content.get("client_metrics", {})),
            quotas=parse_quotas(content["client_quotas"]),
        ),
    )


def _sorted(configs: Mapping[str, Configs]) -> dict[str, dict[str, str]]:
    return {name: dict(one) for name, one in sorted(configs.items())}


def _all_texts(values: Any) -> dict[str, dict[str, str]]:
    return {str(name): texts(one) for name, one in values.items()}
