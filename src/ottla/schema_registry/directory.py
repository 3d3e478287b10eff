"""A registry that is a directory of schemas: `ID.avsc` by the id in records.

A subject's versions are the files `SUBJECT.avsc`, or `SUBJECT.1.avsc`, `SUBJECT.2.avsc`, which may
be links to files by id.
"""

import json
import re
from pathlib import Path

from ottla.base.errors import UserError
from ottla.schema_registry.protobuf_schemas import imports
from ottla.schema_registry.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    UnknownSchemaError,
)

KIND_OF = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}


class DirectoryRegistry:
    """See `SchemaRegistry`."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def schema(self, schema_id: int) -> RegisteredSchema:
        return self._read(str(schema_id), f"schema id {schema_id}")

    def schema_of_guid(self, guid: str) -> RegisteredSchema:
        return self._read(guid, f"schema {guid}")

    def versions(self, subject: str) -> list[RegisteredSchema]:
        numbered = re.compile(rf"{re.escape(subject)}\.(\d+)\.(?:avsc|json|proto)")
        self.check()
        found = [one for path in self._path.iterdir() if (one := numbered.fullmatch(path.name))]
        if not found:
            return [self._read(subject, f"subject {subject}")]
        numbers = sorted(int(one[1]) for one in found)
        what = f"subject {subject}"
        return [self._read(f"{subject}.{number}", what) for number in numbers]

    @property
    def path(self) -> Path:
        return self._path

    def check(self) -> None:
        """Raises `UserError` if the directory is none."""
        if not self._path.is_dir():
            raise UserError(
                f"{self._path} is not a directory of schemas: name one with files such as 7.avsc "
                f"(by id) and orders-value.avsc (by subject), or a registry's http address"
            )

    def _read(self, name: str, what: str) -> RegisteredSchema:
        for suffix, kind in KIND_OF.items():
            path = self._path / f"{name}{suffix}"
            try:
                text = path.read_text()
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise UserError(f"{path} cannot be read: {error}") from error
            _check_text(path, kind, text)
            references = self._imported(text) if kind == PROTOBUF else {}
            return RegisteredSchema(text=text, kind=kind, references=references)
        self.check()
        raise UnknownSchemaError(f"{self._path} has no {what} ({name}.avsc)")

    def _imported(self, text: str) -> dict[str, str]:
        """The imports of a `.proto` text that are in the directory, without well-known types."""
        found: dict[str, str] = {}
        names = imports(text)
        while names:
            name = names.pop()
            path = self._path / name
            if name not in found and ".." not in path.parts and path.is_file():
                found[name] = path.read_text(encoding="utf-8", errors="replace")
                names += imports(found[name])
        return found


def _check_text(path: Path, kind: str, text: str) -> None:
    if kind == PROTOBUF:
        return
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}") from error
