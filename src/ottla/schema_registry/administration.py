"""What a person does with a registry: list subjects and versions, compare, register, delete, and
set compatibility levels. Confluent's API; a directory of schemas can be read only.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from ottla.base.errors import RefusalError, UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.schema_registry.directory import KIND_OF, DirectoryRegistry
from ottla.schema_registry.http import HttpRegistry
from ottla.schema_registry.registry import (
    AVRO,
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchemaError,
)

_SUBJECT_FILE = lazy_pattern(r"(?P<subject>.+?)(?:\.(?P<number>\d+))?")
_BY_ID = lazy_pattern(r"\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses by `name`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchema:
    """A schema to register."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()

    def body(self) -> dict[str, Any]:
        """As the API takes it."""
        found: dict[str, Any] = {"schema": self.text}
        if self.kind != AVRO:
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version}
                for one in self.references
            ]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectVersion:
    """A version of a subject; without an id in a directory of schemas."""

    subject: str
    version: int
    schema_id: int | None
    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = field(default=())


class RegistryAdmin(Protocol):
    """All methods raise `UnknownSchemaError` for what is not there, `RefusalError` for what the
    registry does not allow, and `UserError` if it cannot be asked.
    """

    address: str
    can_write: bool

    def subjects(self, *, with_deleted: bool = False) -> list[str]:
        """In order."""

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[int]:
        """In order."""

    def version(self, subject: str, number: int) -> SubjectVersion:
        """Also a deleted one."""

    def referenced_by(self, subject: str, number: int) -> list[int]:
        """The ids of schemas that reference this version."""

    def level(self, subject: str | None = None) -> tuple[str, bool]:
        """The compatibility level of a subject, or the global one; and whether it is its own."""

    def set_level(self, subject: str | None, level: str | None) -> None:
        """Sets a level, or removes a subject's own."""

    def find(self, subject: str, schema: NewSchema) -> SubjectVersion | None:
        """The version of a subject that has this schema."""

    def faults(self, subject: str, schema: NewSchema) -> list[str]:
        """Why the schema may not follow the subject's versions; none if it may."""

    def register(self, subject: str, schema: NewSchema) -> int:
        """Registers a version; returns the schema's id."""

    def delete(self, subject: str, number: int | None, *, is_permanent: bool) -> None:
        """Deletes a version, or all of a subject. A permanent deletion follows a soft one."""


def open_admin(registry: SchemaRegistry) -> RegistryAdmin:
    """The administration of a registry."""
    if isinstance(registry, HttpRegistry):
        return HttpAdmin(registry)
    assert isinstance(registry, DirectoryRegistry)
    return DirectoryAdmin(registry)


class HttpAdmin:
    """See `RegistryAdmin`."""

    can_write = True

    def __init__(self, registry: HttpRegistry) -> None:
        self._registry = registry
        self.address = registry.url

    def subjects(self, *, with_deleted: bool = False) -> list[str]:
        found = self._ask(f"/subjects{_deleted(with_deleted)}", "subjects")
        return sorted(one for one in _listed(found) if isinstance(one, str))

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[int]:
        path = f"{subject_path(subject)}/versions{_deleted(with_deleted)}"
        found = self._ask(path, f"subject {subject}")
        return sorted(one for one in _listed(found) if isinstance(one, int))

    def version(self, subject: str, number: int) -> SubjectVersion:
        path = f"{subject_path(subject)}/versions/{number}{_deleted(True)}"
        return self._version(self._ask(path, f"version {number} of subject {subject}"))

    def _version(self, answer: Any) -> SubjectVersion:
        try:
            return SubjectVersion(
                subject=str(answer["subject"]),
                version=int(answer["version"]),
                schema_id=int(answer["id"]),
                text=str(answer["schema"]),
                kind=str(answer.get("schemaType") or AVRO),
                references=tuple(
                    Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
                    for one in answer.get("references") or ()
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"schema registry {self.address}: its response has no version of a schema"
            ) from error

    def referenced_by(self, subject: str, number: int) -> list[int]:
        path = f"{subject_path(subject)}/versions/{number}/referencedby"
        try:
            found = _listed(self._ask(path, f"version {number} of subject {subject}"))
        except UnknownSchemaError:
            return []
        return sorted(one for one in found if isinstance(one, int))

    def level(self, subject: str | None = None) -> tuple[str, bool]:
        if subject is not None:
            try:
                found = self._ask(f"/config/{quote(subject, safe='')}", f"level of {subject}")
                return _level_in(found), True
            except UnknownSchemaError:
                pass
        return _level_in(self._ask("/config", "global level")), subject is None

    def set_level(self, subject: str | None, level: str | None) -> None:
        path = "/config" if subject is None else f"/config/{quote(subject, safe='')}"
        if level is None:
            self._ask(path, "level", method="DELETE")
        else:
            self._ask(path, "level", method="PUT", body={"compatibility": level})

    def find(self, subject: str, schema: NewSchema) -> SubjectVersion | None:
        try:
            answer = self._ask(subject_path(subject), "schema", method="POST", body=schema.body())
        except UnknownSchemaError:
            return None
        return self._version({"schema": schema.text, **answer})

    def faults(self, subject: str, schema: NewSchema) -> list[str]:
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions?verbose=true"
        try:
            found = self._ask(path, "subject", method="POST", body=schema.body())
        except UnknownSchemaError:
            return []  # a new subject takes any schema
        if isinstance(found, dict) and found.get("is_compatible") is True:
            return []
        messages = found.get("messages") if isinstance(found, dict) else None
        return [str(one) for one in messages or ()] or ["the registry does not say why"]

    def register(self, subject: str, schema: NewSchema) -> int:
        path = f"{subject_path(subject)}/versions"
        found = self._ask(path, f"subject {subject}", method="POST", body=schema.body())
        if not isinstance(found, dict) or not isinstance(found.get("id"), int):
            raise UserError(f"schema registry {self.address}: its response has no id")
        return int(found["id"])

    def delete(self, subject: str, number: int | None, *, is_permanent: bool) -> None:
        self._ask(deletion_path(subject, number, is_permanent), "version", method="DELETE")

    def _ask(
        self, path: str, what: str, *, method: str = "GET", body: Mapping[str, Any] | None = None
    ) -> Any:
        return self._registry.ask(path, what, method=method, body=body)


def subject_path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def deletion_path(subject: str, number: int | None, is_permanent: bool) -> str:
    """The path of the API for a deletion."""
    version = "" if number is None else f"/versions/{number}"
    return f"{subject_path(subject)}{version}{'?permanent=true' if is_permanent else ''}"


def _deleted(with_deleted: bool) -> str:
    return "?deleted=true" if with_deleted else ""


def _listed(found: Any) -> Sequence[Any]:
    return found if isinstance(found, list) else ()


def _level_in(found: Any) -> str:
    level = found.get("compatibilityLevel") if isinstance(found, dict) else None
    return str(level or "unknown")


class DirectoryAdmin:
    """See `RegistryAdmin`; the files are changed with an editor."""

    can_write = False

    def __init__(self, registry: DirectoryRegistry) -> None:
        self._registry = registry
        self.address = str(registry.path)

    def subjects(self, *, with_deleted: bool = False) -> list[str]:
        return sorted({subject for subject, _ in self._files()})

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[int]:
        found = sorted({number for one, number in self._files() if one == subject})
        if not found:
            raise UnknownSchemaError(f"{self.address} has no subject {subject}")
        return found

    def _files(self) -> list[tuple[str, int]]:
        self._registry.check()
        names = [one for one in self._registry.path.iterdir() if one.suffix in KIND_OF]
        return [found for one in names if (found := _subject_in(one)) is not None]

    def version(self, subject: str, number: int) -> SubjectVersion:
        schemas = dict(zip(self.versions(subject), self._registry.versions(subject), strict=False))
        if number not in schemas:
            raise UnknownSchemaError(f"{self.address} has no version {number} of {subject}")
        found: RegisteredSchema = schemas[number]
        return SubjectVersion(
            subject=subject, version=number, schema_id=None, text=found.text, kind=found.kind
        )

    def referenced_by(self, subject: str, number: int) -> list[int]:
        return []

    def level(self, subject: str | None = None) -> tuple[str, bool]:
        return "NONE", subject is None

    def set_level(self, subject: str | None, level: str | None) -> None:
        raise self._refused()

    def find(self, subject: str, schema: NewSchema) -> SubjectVersion | None:
        raise self._refused()

    def faults(self, subject: str, schema: NewSchema) -> list[str]:
        raise self._refused()

    def register(self, subject: str, schema: NewSchema) -> int:
        raise self._refused()

    def delete(self, subject: str, number: int | None, *, is_permanent: bool) -> None:
        raise self._refused()

    def _refused(self) -> RefusalError:
        return RefusalError(f"{self.address} is a directory of schemas: change its files")


def _subject_in(path: Path) -> tuple[str, int] | None:
    """The subject and version of a file; `None` for a schema by its id or GUID."""
    if _BY_ID.fullmatch(path.stem) is not None:
        return None
    found: re.Match[str] | None = _SUBJECT_FILE.fullmatch(path.stem)
    assert found is not None
    return found["subject"], int(found["number"] or 1)
