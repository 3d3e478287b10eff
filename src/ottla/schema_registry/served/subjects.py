"""The subjects and versions that result from the records of `_schemas`, without I/O.

Reads are answered from this state. Writes return changes, which take effect when their records are
in the topic and have been applied. Kafka has no counterpart; Confluent's is `KafkaSchemaRegistry`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import md5
from typing import Any
from uuid import UUID

from ottla.schema_registry.registry import AVRO, JSON, PROTOBUF
from ottla.schema_registry.served.compatibility import DEFAULT_LEVEL, LEVELS, Schema
from ottla.schema_registry.served.faults import (
    RegistryError,
    invalid_level,
    invalid_schema,
    no_schema,
    no_subject,
    no_version,
)
from ottla.schema_registry.served.records import (
    Change,
    SchemaVersion,
    Setting,
    SubjectDeleted,
    VersionGone,
)

KINDS = (AVRO, JSON, PROTOBUF)
MODES = ("READWRITE", "READONLY")

References = tuple[Mapping[str, Any], ...]


class Subjects:
    """The state, which only `apply` changes."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, SchemaVersion]] = {}
        self._by_id: dict[int, SchemaVersion] = {}
        self._settings: dict[tuple[str, str | None], str] = {}
        self._last_id = 0

    def apply(self, change: Change) -> None:
        """Applies a record of the topic."""
        match change:
            case SchemaVersion():
                self._versions.setdefault(change.subject, {})[change.version] = change
                self._by_id.setdefault(change.schema_id, change)
                self._last_id = max(self._last_id, change.schema_id)
            case VersionGone():
                versions = self._versions.get(change.subject, {})
                versions.pop(change.version, None)
                if not versions:
                    self._versions.pop(change.subject, None)
            case SubjectDeleted():
                versions = self._versions.get(change.subject, {})
                for number, one in versions.items():
                    if number <= change.version:
                        versions[number] = replace(one, is_deleted=True)
            case Setting(kind=kind, subject=subject, value=None):
                self._settings.pop((kind, subject), None)
            case Setting(kind=kind, subject=subject, value=str(value)):
                self._settings[kind, subject] = value

    # Reads: each raises `RegistryError` for what does not exist

    def names(self, prefix: str = "", *, with_deleted: bool = False) -> list[str]:
        return sorted(
            name
            for name in self._versions
            if name.startswith(prefix) and self._listed(name, with_deleted)
        )

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[SchemaVersion]:
        """The versions in order, at least one."""
        found = self._listed(subject, with_deleted)
        if not found:
            raise no_subject(subject)
        return found

    def version(
        self, subject: str, number: int | None, *, with_deleted: bool = False
    ) -> SchemaVersion:
        """The version with a number; `None` is the latest."""
        found = self.versions(subject, with_deleted=with_deleted)
        if number is None:
            return found[-1]
        for one in found:
            if one.version == number:
                return one
        raise no_version(number)

    def by_id(self, schema_id: int) -> SchemaVersion:
        if schema_id not in self._by_id:
            raise no_schema(str(schema_id))
        return self._by_id[schema_id]

    def by_guid(self, guid: str) -> SchemaVersion:
        for one in self._by_id.values():
            if guid_of(one) == guid:
                return one
        raise no_schema(guid)

    def uses_of_id(self, schema_id: int, *, with_deleted: bool = False) -> list[SchemaVersion]:
        self.by_id(schema_id)
        return [
            one
            for name in sorted(self._versions)
            for one in self._listed(name, with_deleted)
            if one.schema_id == schema_id
        ]

    def find(
        self, subject: str, schema: Schema, references: References, *, with_deleted: bool = False
    ) -> SchemaVersion:
        """The version of a subject with exactly this schema."""
        for one in reversed(self.versions(subject, with_deleted=with_deleted)):
            if _is_same(one, schema, references):
                return one
        raise no_schema("")

    def schema(self, text: Any, kind: Any, references: References) -> Schema:
        """Parses a client's schema; raises `RegistryError` if it is invalid."""
        if kind not in KINDS:
            raise invalid_schema(f"schemaType {kind!r}; there are {', '.join(KINDS)}")
        if not isinstance(text, str) or not text.strip():
            raise invalid_schema("it is empty")
        return Schema(text, kind, self.texts(references))

    def texts(self, references: References) -> dict[str, str]:
        """The texts of referenced schemas, each after those that it references itself."""
        found: dict[str, str] = {}
        for one in references:
            try:
                name, subject, number = str(one["name"]), str(one["subject"]), int(one["version"])
            except (KeyError, TypeError, ValueError) as error:
                raise invalid_schema("a reference needs name, subject and version") from error
            try:
                version = self.version(subject, number, with_deleted=True)
            except RegistryError as error:
                raise invalid_schema(f"its reference {name}: {error.message}") from error
            found.update(self.texts(version.references))
            found[name] = version.text
        return found

    def level(self, subject: str | None, *, is_default: bool = True) -> str:
        """The compatibility level; without `is_default` only a subject's own."""
        own = self._settings.get(("CONFIG", subject))
        if own is not None:
            return own
        if subject is not None and not is_default:
            raise RegistryError(
                40408, f"Subject '{subject}' does not have subject-level compatibility configured"
            )
        return self._settings.get(("CONFIG", None), DEFAULT_LEVEL)

    def mode(self, subject: str | None = None) -> str:
        everywhere = self._settings.get(("MODE", None), MODES[0])
        return self._settings.get(("MODE", subject), everywhere)

    def faults(self, subject: str, schema: Schema, others: Sequence[SchemaVersion]) -> list[str]:
        """Why a schema may not follow these versions; empty if it may."""
        known = [Schema(one.text, one.kind, self.texts(one.references)) for one in others]
        return schema.faults(known, self.level(subject))

    # Writes: each returns changes, or raises `RegistryError`

    def register(self, subject: str, schema: Schema, references: References) -> list[Change]:
        """The changes to register a schema; none if it is registered."""
        there = self._listed(subject, with_deleted=False)
        for one in reversed(there):
            if _is_same(one, schema, references):
                return []
        self._check_mode(subject)
        if faults := self.faults(subject, schema, there):
            raise RegistryError(
                409,
                f"Schema being registered is incompatible with an earlier schema for subject "
                f'"{subject}", details: [{"; ".join(faults)}]',
            )
        same = (one for one in self._by_id.values() if _is_same(one, schema, references))
        known = next(same, None)
        new = SchemaVersion(
            subject=subject,
            version=max(self._versions.get(subject, {0: None})) + 1,
            schema_id=self._last_id + 1 if known is None else known.schema_id,
            text=schema.text,
            kind=schema.kind,
            references=references,
        )
        return [new]

    def delete_version(
        self, subject: str, number: int | None, *, is_permanent: bool
    ) -> tuple[int, list[Change]]:
        """The version's number, and the changes to delete it."""
        self._check_mode(subject)
        version = self.version(subject, number, with_deleted=is_permanent)
        self._check_unused([version])
        if not is_permanent:
            return version.version, [replace(version, is_deleted=True)]
        if not version.is_deleted:
            raise RegistryError(
                40407,
                f"Subject '{subject}' Version {version.version} was not deleted first before being "
                f"permanently deleted",
            )
        return version.version, [VersionGone(subject=subject, version=version.version)]

    def delete_subject(self, subject: str, *, is_permanent: bool) -> tuple[list[int], list[Change]]:
        """The numbers of the subject's versions, and the changes to delete them."""
        self._check_mode(subject)
        versions = self.versions(subject, with_deleted=is_permanent)
        self._check_unused(versions)
        numbers = [one.version for one in versions]
        if not is_permanent:
            return numbers, [SubjectDeleted(subject=subject, version=numbers[-1])]
        if not all(one.is_deleted for one in versions):
            raise RegistryError(
                40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
            )
        return numbers, [VersionGone(subject=subject, version=number) for number in numbers]

    def set_level(self, subject: str | None, level: Any) -> list[Change]:
        """The changes to set a level; `None` removes the subject's own."""
        if level is not None and (not isinstance(level, str) or level.upper() not in LEVELS):
            raise invalid_level(level)
        value = None if level is None else level.upper()
        return [Setting(kind="CONFIG", subject=subject, value=value)]

    def set_mode(self, subject: str | None, mode: Any) -> list[Change]:
        if mode is not None and mode not in MODES:
            raise RegistryError(
                42204, f"Invalid mode {mode!r}. Valid values are {', '.join(MODES)}"
            )
        return [Setting(kind="MODE", subject=subject, value=mode)]

    # Helpers

    def _listed(self, subject: str, with_deleted: bool) -> list[SchemaVersion]:
        versions = self._versions.get(subject, {})
        return [one for _, one in sorted(versions.items()) if with_deleted or not one.is_deleted]

    def _check_mode(self, subject: str) -> None:
        if self.mode(subject) == "READONLY":
            raise RegistryError(42205, f"Subject {subject} is in read-only mode")

    def _check_unused(self, versions: Sequence[SchemaVersion]) -> None:
        gone = {(one.subject, one.version) for one in versions}
        for name in self.names():
            for one in self.versions(name):
                for reference in one.references:
                    place = (reference.get("subject"), reference.get("version"))
                    if place in gone and (one.subject, one.version) not in gone:
                        raise RegistryError(
                            42206,
                            f"One or more references exist to the schema {place[0]} version "
                            f"{place[1]}: {one.subject} version {one.version}",
                        )


def guid_of(version: SchemaVersion) -> str:
    """The GUID of a schema, equal wherever it is registered."""
    data = "\0".join([version.kind, version.text, *(str(one) for one in version.references)])
    return str(UUID(bytes=md5(data.encode(), usedforsecurity=False).digest()))


def _is_same(version: SchemaVersion, schema: Schema, references: References) -> bool:
    return (version.kind, version.text, version.references) == (
        schema.kind,
        schema.text,
        references,
    )
