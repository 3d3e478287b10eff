"""The subjects and versions that result from the records of `_schemas`, without I/O.

Reads are answered from this state. Writes return changes, which take effect when their records are
in the topic and have been applied. Kafka has no counterpart; Confluent's is `KafkaSchemaRegistry`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b, md5
from typing import Any
from uuid import UUID

from ottla.base.values import dataclass
from ottla.schema_registry.registry import AVRO, JSON, PROTOBUF
from ottla.schema_registry.served import examining
from ottla.schema_registry.served.compatibility import DEFAULT_LEVEL, LEVELS, Schema
from ottla.schema_registry.served.faults import (
    RegistryError,
    invalid_level,
    invalid_mode,
    invalid_schema,
    invalid_subject,
    no_schema,
    no_subject,
    no_version,
    not_permitted,
    too_large,
)
from ottla.schema_registry.served.records import (
    Change,
    SchemaVersion,
    Setting,
    SubjectDeleted,
    VersionGone,
)
from ottla.schema_registry.served.spelling import meaning

KINDS = (AVRO, JSON, PROTOBUF)
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
READWRITE, _, OVERRIDE, IMPORT = MODES
LARGEST_SCHEMA = 400_000
"""In characters; the record of a schema must fit into `message.max.bytes`."""
MOST_REFERENCES = 1000
"""Of one schema, with those of the schemas that it references."""
LARGEST_REFERENCES = 4 << 20
"""In characters, together."""

References = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a client gives with a schema; the id and version are those of another registry."""

    references: References = ()
    schema_id: int | None = None
    version: int | None = None

    def is_met_by(self, version: SchemaVersion) -> bool:
        return self.schema_id in (None, version.schema_id) and (
            self.version in (None, version.version)
        )


class Subjects:
    """The state, which only `apply` changes."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, SchemaVersion]] = {}
        self._by_id: dict[int, dict[tuple[str, int], SchemaVersion]] = {}
        """The versions with an id, by subject and version, the first one first."""
        self._ids: dict[str, dict[int, None]] = {}
        """The ids of schemas by a digest of what they say."""
        self._said: dict[int, str] = {}
        """The digest of each id."""
        self._settings: dict[tuple[str, str | None], str] = {}
        self._last_id = 0

    def apply(self, change: Change) -> None:
        """Applies a record of the topic."""
        match change:
            case SchemaVersion():
                self._add(change)
            case VersionGone():
                self._remove(change.subject, change.version)
            case SubjectDeleted():
                for number, one in list(self._versions.get(change.subject, {}).items()):
                    if number <= change.version:
                        self._add(replace(one, is_deleted=True))
            case Setting(kind=kind, subject=subject, value=None):
                self._settings.pop((kind, subject), None)
            case Setting(kind=kind, subject=subject, value=str(value)):
                self._settings[kind, subject] = value

    def _add(self, new: SchemaVersion) -> None:
        old = self._versions.get(new.subject, {}).get(new.version)
        if old is not None and old.schema_id != new.schema_id:
            self._remove(new.subject, new.version)
        self._versions.setdefault(new.subject, {})[new.version] = new
        self._by_id.setdefault(new.schema_id, {})[new.subject, new.version] = new
        if new.schema_id not in self._said:
            said = self._said[new.schema_id] = said_by(new.kind, _meaning(new), new.references)
            self._ids.setdefault(said, {})[new.schema_id] = None
        self._last_id = max(self._last_id, new.schema_id)

    def _remove(self, subject: str, number: int) -> None:
        versions = self._versions.get(subject, {})
        gone = versions.pop(number, None)
        if gone is None:
            return
        if not versions:
            del self._versions[subject]
        uses = self._by_id[gone.schema_id]
        del uses[subject, number]
        if not uses:
            del self._by_id[gone.schema_id]
            self._ids[self._said.pop(gone.schema_id)].pop(gone.schema_id)

    # Reads: each raises `RegistryError` for what does not exist

    def names(
        self, prefix: str = "", *, with_deleted: bool = False, only_deleted: bool = False
    ) -> list[str]:
        return sorted(
            name
            for name in self._versions
            if name.startswith(prefix)
            and self._listed(name, with_deleted or only_deleted)
            and not (only_deleted and self._listed(name, with_deleted=False))
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

    def live_versions(self, subject: str) -> list[SchemaVersion]:
        """The versions that are not deleted, in order; none of an unknown subject."""
        return self._listed(subject, with_deleted=False)

    def has(self, version: SchemaVersion) -> bool:
        return self._versions.get(version.subject, {}).get(version.version) == version

    def by_id(self, schema_id: int) -> SchemaVersion:
        if schema_id not in self._by_id:
            raise no_schema(schema_id)
        return next(iter(self._by_id[schema_id].values()))

    @property
    def last_id(self) -> int:
        return self._last_id

    def by_guid(self, guid: str) -> SchemaVersion:
        for uses in self._by_id.values():
            for one in uses.values():
                if guid_of(one) == guid:
                    return one
        raise no_schema(guid)

    def uses_of_id(self, schema_id: int, *, with_deleted: bool = False) -> list[SchemaVersion]:
        self.by_id(schema_id)
        found = (one for _, one in sorted(self._by_id[schema_id].items()))
        return [one for one in found if with_deleted or not one.is_deleted]

    def find(
        self, subject: str, schema: Schema, references: References, *, with_deleted: bool = False
    ) -> SchemaVersion:
        """The latest version of a subject that says this."""
        said = said_by(schema.kind, schema.meaning, references)
        for one in reversed(self.versions(subject, with_deleted=with_deleted)):
            if self._said[one.schema_id] == said:
                return one
        raise no_schema()

    def schema(self, text: Any, kind: Any, references: References) -> Schema:
        """Parses a client's schema; raises `RegistryError` if it is invalid."""
        if kind not in KINDS:
            raise invalid_schema(f"schemaType {kind!r}; there are {', '.join(KINDS)}")
        if not isinstance(text, str) or not text.strip():
            raise invalid_schema("it is empty")
        if len(text) > LARGEST_SCHEMA:
            raise too_large(f"{len(text)} characters, and {LARGEST_SCHEMA} are allowed")
        return examining.parsed(text, kind, self.texts(references))

    def texts(self, references: References) -> dict[str, str]:
        """The texts of referenced schemas, each after those that it references itself."""
        found: dict[str, str] = {}
        seen: set[tuple[str, str, int]] = set()
        todo = [iter(references)]
        done: list[tuple[str, str]] = []
        size = 0
        while todo:
            one = next(todo[-1], None)
            if one is None:
                todo.pop()
                if done:
                    name, text = done.pop()
                    found[name] = text
                continue
            place = reference_place(one)
            if place in seen:
                continue
            seen.add(place)
            name, subject, number = place
            try:
                version = self.version(subject, number, with_deleted=True)
            except RegistryError as error:
                raise invalid_schema(f"its reference {name}: {error.message}") from error
            size += len(version.text)
            if len(seen) > MOST_REFERENCES or size > LARGEST_REFERENCES:
                raise too_large(
                    f"more than {MOST_REFERENCES} references, or {LARGEST_REFERENCES} characters "
                    "in them"
                )
            todo.append(iter(version.references))
            done.append((name, version.text))
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

    def mode(self, subject: str | None = None, *, is_default: bool = True) -> str:
        """The mode; without `is_default` only a subject's own."""
        everywhere = self._settings.get(("MODE", None), READWRITE)
        if subject is None or (everywhere == OVERRIDE and is_default):
            return everywhere
        own = self._settings.get(("MODE", subject))
        if own is None and not is_default:
            raise RegistryError(
                40409, f"Subject '{subject}' does not have subject-level mode configured"
            )
        return own or everywhere

    def has_own(self, kind: str, subject: str) -> bool:
        return (kind, subject) in self._settings

    def faults(self, subject: str, schema: Schema, others: Sequence[SchemaVersion]) -> list[str]:
        """Why a schema may not follow these versions; empty if it may."""
        level = self.level(subject)
        if level == "NONE":
            return []
        others = others if level.endswith("_TRANSITIVE") else others[-1:]
        known = [
            Schema(
                text=one.text, kind=one.kind, references=tuple(self.texts(one.references).items())
            )
            for one in others
        ]
        return examining.faults(schema, known, level)

    # Writes: each returns changes, or raises `RegistryError`

    def register(self, subject: str, schema: Schema, wanted: Wanted) -> SchemaVersion:
        """The version to register, or the one that is registered; raises `RegistryError`."""
        said = said_by(schema.kind, schema.meaning, wanted.references)
        there = self._listed(subject, with_deleted=False)
        for one in reversed(there):
            if self._said[one.schema_id] == said and wanted.is_met_by(one):
                return one
        self._check_may_register(subject, wanted)
        if self.mode(subject) != IMPORT and (faults := self.faults(subject, schema, there)):
            raise RegistryError(
                409,
                f"Schema being registered is incompatible with an earlier schema for subject "
                f'"{subject}", details: [{"; ".join(faults)}]',
            )
        schema_id = wanted.schema_id
        if schema_id is None:
            schema_id = next(iter(self._ids.get(said, ())), self._last_id + 1)
        elif self._said.get(schema_id, said) != said:
            raise not_permitted(f"Overwrite new schema with id {schema_id} is not permitted.")
        known = self._by_id.get(schema_id)
        return SchemaVersion(
            subject=subject,
            version=self._new_number(subject, wanted),
            schema_id=schema_id,
            text=schema.text if known is None else self.by_id(schema_id).text,
            kind=schema.kind,
            references=wanted.references,
        )

    def _check_may_register(self, subject: str, wanted: Wanted) -> None:
        check_subject(subject)
        self._check_mode(subject)
        mode = self.mode(subject)
        if wanted.schema_id is not None and mode != IMPORT:
            raise not_permitted(f"Subject {subject} is not in import mode")
        if wanted.schema_id is None and mode != READWRITE:
            raise not_permitted(f"Subject {subject} is not in read-write mode")

    def _new_number(self, subject: str, wanted: Wanted) -> int:
        versions = self._versions.get(subject, {})
        following = max(versions, default=0) + 1
        if wanted.version is None:
            return following
        if wanted.schema_id is None and wanted.version != following:
            raise invalid_schema("Version is not one more than previous version")
        known = versions.get(wanted.version)
        if known is not None and not known.is_deleted:
            raise not_permitted(
                f"Overwrite version {known.version} of subject {subject} is not permitted."
            )
        return wanted.version

    def delete_version(
        self, subject: str, number: int | None, *, is_permanent: bool
    ) -> tuple[int, list[Change]]:
        """The version's number, and the changes to delete it."""
        self._check_mode(subject)
        version = self.version(subject, number, with_deleted=is_permanent or number is not None)
        where = f"Subject '{subject}' Version {version.version}"
        if version.is_deleted and not is_permanent:
            raise RegistryError(
                40406, f"{where} was soft deleted. Set permanent=true to delete permanently"
            )
        self._check_unused([version])
        if not is_permanent:
            return version.version, [replace(version, is_deleted=True)]
        if not version.is_deleted:
            raise RegistryError(
                40407, f"{where} was not deleted first before being permanently deleted"
            )
        return version.version, [VersionGone(subject=subject, version=version.version)]

    def delete_subject(self, subject: str, *, is_permanent: bool) -> tuple[list[int], list[Change]]:
        """The numbers of the subject's versions, and the changes to delete them."""
        self._check_mode(subject)
        versions = self.versions(subject, with_deleted=True)
        left = [one for one in versions if not one.is_deleted]
        if not left and not is_permanent:
            raise RegistryError(
                40404,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        if left and is_permanent:
            raise RegistryError(
                40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
            )
        going = versions if is_permanent else left
        self._check_unused(going)
        numbers = [one.version for one in going]
        if not is_permanent:
            return numbers, [SubjectDeleted(subject=subject, version=numbers[-1])]
        return numbers, [VersionGone(subject=subject, version=number) for number in numbers]

    def set_level(self, subject: str | None, level: Any) -> list[Change]:
        """The changes to set a level; `None` removes the subject's own."""
        if level is not None and (not isinstance(level, str) or level.upper() not in LEVELS):
            raise invalid_level()
        self._check_mode(subject)
        value = None if level is None else level.upper()
        return [Setting(kind="CONFIG", subject=subject, value=value)]

    def set_mode(self, subject: str | None, mode: Any, *, force: bool = False) -> list[Change]:
        """As `set_level`; schemas must not exist for IMPORT, unless it is forced."""
        value = mode.upper() if isinstance(mode, str) else mode
        if value is not None and value not in MODES:
            raise invalid_mode(MODES)
        if value == IMPORT and self.mode(subject) != IMPORT and not force:
            names = self.names() if subject is None else [subject]
            if any(self._listed(name, with_deleted=False) for name in names):
                raise not_permitted("Cannot import since found existing subjects")
        return [Setting(kind="MODE", subject=subject, value=value)]

    # Helpers

    def _listed(self, subject: str, with_deleted: bool) -> list[SchemaVersion]:
        versions = self._versions.get(subject, {})
        return [one for _, one in sorted(versions.items()) if with_deleted or not one.is_deleted]

    def _check_mode(self, subject: str | None) -> None:
        if self.mode(subject).startswith("READONLY"):
            raise not_permitted(f"Subject {subject or '*'} is in read-only mode")

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


def check_subject(subject: str) -> None:
    """Raises `RegistryError` for a name that is empty or has control characters."""
    if not subject.strip() or any(one < " " or "\x7f" <= one <= "\x9f" for one in subject):
        raise invalid_subject(subject)


def said_by(kind: str, meaning: str, references: References) -> str:
    """A digest of what a schema says, with its references."""
    needs = sorted(
        json.dumps([one.get("name"), one.get("subject"), one.get("version")]) for one in references
    )
    content = json.dumps([kind, meaning, *needs])
    return blake2b(content.encode(), digest_size=16).hexdigest()


def _meaning(version: SchemaVersion) -> str:
    """Of a record of the topic, which another registry may have written."""
    try:
        return meaning(version.text, version.kind)
    except RegistryError:
        return version.text


def reference_place(reference: Mapping[str, Any]) -> tuple[str, str, int]:
    """A reference's name, subject and version; raises `RegistryError`."""
    try:
        name, subject, number = reference["name"], reference["subject"], reference["version"]
    except KeyError as error:
        raise invalid_schema("a reference needs name, subject and version") from error
    is_number = isinstance(number, int) and not isinstance(number, bool)
    if not isinstance(name, str) or not isinstance(subject, str) or not is_number:
        raise invalid_schema("a reference has texts as name and subject, a number as version")
    return name, subject, number
