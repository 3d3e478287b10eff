"""Protobuf schemas as message types, from `.proto` text compiled by protoc, or descriptor sets."""

import base64
import binascii
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern

MOST_NESTED_IMPORTS = 200
PATIENCE_S = 20
"""How long protoc may take."""
_MAIN = "__schema__.proto"
_IMPORT = lazy_pattern(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;')
_FAULT = lazy_pattern(r"\S*\.proto:")
"""The beginning of protoc's lines that report an error; other lines are its log."""

# Files that schemas in Confluent's registry may import without a reference.
_CONFLUENT = {
    "confluent/meta.proto": """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
}


class MessageTypes:
    """The messages of a descriptor set, whose last file is the schema itself."""

    def __init__(self, descriptors: bytes) -> None:
        """Raises `UserError` if the bytes are not a descriptor set."""
        with needed_for("Protobuf"):
            from google.protobuf.descriptor_pb2 import FileDescriptorSet
            from google.protobuf.descriptor_pool import DescriptorPool
            from google.protobuf.message import DecodeError
        try:
            self._files = list(FileDescriptorSet.FromString(descriptors).file)
            if not self._files:
                raise UserError("the Protobuf descriptor set is empty")
            self._pool = DescriptorPool()
            for file in self._files:
                self._pool.AddSerializedFile(file.SerializeToString())
        except (DecodeError, TypeError) as error:
            raise UserError(
                f"this is not a Protobuf descriptor set that includes its imports "
                f"(protoc --include_imports --descriptor_set_out=FILE creates one): {error}"
            ) from error

    def named(self, name: str) -> Any:
        """The descriptor of a message by its full name, or its name without the package.

        An empty name is the only message; raises `UserError`.
        """
        of_schema = [one.name for one in self._files[-1].message_type]
        if not name:
            if len(of_schema) != 1:
                known = ", ".join(of_schema) or "none"
                raise UserError(f"the Protobuf schema has several messages: name one of {known}")
            return self.at((0,))
        known_names = dict.fromkeys(one for file in self._files for one in _full_names(file))
        found = [one for one in known_names if one == name or one.endswith(f".{name}")]
        if name in known_names:
            found = [name]
        if len(found) != 1:
            known = ", ".join(of_schema) or "none"
            raise UserError(f"the Protobuf schema has no message {name}; it has {known}")
        return self._pool.FindMessageTypeByName(found[0])

    def at(self, indexes: Iterable[int]) -> Any | None:
        """The message at a message index list; `None` if there is none."""
        file = self._files[-1]
        names, inner = ([file.package] if file.package else []), list(file.message_type)
        for index in indexes:
            if not 0 <= index < len(inner):
                return None
            names.append(inner[index].name)
            # as Confluent counts: without the messages that protoc generates for maps
            inner = [one for one in inner[index].nested_type if not one.options.map_entry]
        return self._pool.FindMessageTypeByName(".".join(names))


def message_class(descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)


def read_message(kind: Any, data: bytes) -> Any:
    """One message of a class, see `plain`; raises `ValueError`."""
    from google.protobuf.json_format import Error
    from google.protobuf.message import DecodeError

    try:
        return plain(kind.FromString(data))
    except DecodeError as error:
        raise ValueError(f"not a Protobuf message {kind.DESCRIPTOR.full_name}") from error
    except (Error, TypeError, ArithmeticError, RecursionError) as error:
        # A time that no calendar has, or an Any of an unknown type.
        words = f"a Protobuf message {kind.DESCRIPTOR.full_name} that has no JSON: {error}"
        raise ValueError(words) from error


def parsed_message(kind: Any, text: str | bytes) -> bytes:
    """A message of a class from its JSON, as bytes; raises `ValueError`."""
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import EncodeError

    try:
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError("it is no JSON object")
        return bytes(ParseDict(fields, kind()).SerializeToString())
    except (ParseError, EncodeError, ValueError, RecursionError) as error:
        words = f"not a Protobuf message {kind.DESCRIPTOR.full_name}: {error}"
        raise ValueError(words) from error


def plain(message: Any) -> Any:
    """A message as dicts, lists and plain values, by the names of its schema.

    Unset fields with presence are left out; well-known types are as in their JSON.
    """
    from google.protobuf.json_format import MessageToDict

    descriptor = message.DESCRIPTOR
    if descriptor.file.name.startswith("google/protobuf/"):
        return MessageToDict(message, preserving_proto_field_name=True)
    found: dict[str, Any] = {}
    for field in descriptor.fields:
        if not field.has_presence or message.HasField(field.name):
            found[field.name] = _plain_field(field, getattr(message, field.name))
    return found


def _plain_field(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {str(key): _plain_value(inner, one) for key, one in sorted(value.items())}
    if field.is_repeated:
        return [_plain_value(field, one) for one in value]
    return _plain_value(field, value)


def _plain_value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def _full_names(file: Any) -> Iterator[str]:
    def of(messages: Any, outer: str) -> Iterator[str]:
        for one in messages:
            if not one.options.map_entry:
                yield f"{outer}{one.name}"
                yield from of(one.nested_type, f"{outer}{one.name}.")

    return of(file.message_type, f"{file.package}." if file.package else "")


def imports(text: str) -> list[str]:
    """The paths that a `.proto` text imports."""
    return _IMPORT.findall(text)


def compiled(text: str, references: Mapping[str, str]) -> bytes:
    """The descriptor set of a `.proto` text and its imports; raises `UserError`.

    `references` has the texts of imports by path; well-known types need none. Instead of a text the
    schema may be its file descriptor in base64, as Confluent's Python client sends it.
    """
    file = _file_descriptor(text)
    if file is not None:
        return _assembled(file, references)
    return _compiled(text, tuple(references.items()))


def _file_descriptor(text: str) -> Any | None:
    with needed_for("Protobuf"):
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError

    try:
        # Protobuf's language is never valid base64: it has spaces or semicolons.
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _assembled(file: Any, references: Mapping[str, str]) -> bytes:
    """The descriptor set of a file and its imports, each before the file that needs it."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found: dict[str, Any] = {}

    def add(one: Any, within: tuple[str, ...]) -> None:
        for path in one.dependency:
            if path in within:
                raise UserError(f"the Protobuf schema imports itself: {path}")
            if len(within) == MOST_NESTED_IMPORTS:
                raise UserError(f"a Protobuf schema has over {MOST_NESTED_IMPORTS} nested imports")
            if path not in found:
                add(_imported(path, references), (*within, path))
        found[one.name] = one

    add(file, ())
    descriptors = bytes(FileDescriptorSet(file=found.values()).SerializeToString())
    MessageTypes(descriptors)  # raises for what protoc would have refused
    return descriptors


def _imported(path: str, references: Mapping[str, str]) -> Any:
    """The descriptor of an imported file: a reference, or a well-known type."""
    from google.protobuf import descriptor_pool
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    if path in references:
        file = _file_descriptor(references[path])
        if file is None:
            others = tuple((name, text) for name, text in references.items() if name != path)
            file = FileDescriptorSet.FromString(_compiled(references[path], others)).file[-1]
        file.name = path
        return file
    module = path.removesuffix(".proto").replace("/", ".")
    file = FileDescriptorProto()
    try:
        if module.startswith("google."):
            import_module(f"{module}_pb2")
        descriptor_pool.Default().FindFileByName(path).CopyToProto(file)
    except (ImportError, KeyError) as error:
        raise UserError(f"the Protobuf schema imports {path}, which does not exist") from error
    return file


@lru_cache(maxsize=256)
def _compiled(text: str, references: tuple[tuple[str, str], ...]) -> bytes:
    with TemporaryDirectory(prefix="ottla-proto-") as name:
        directory = Path(name)
        for path, content in {**_CONFLUENT, **dict(references), _MAIN: text}.items():
            _write(directory, path, content)
        return _run_protoc(_MAIN, [directory])


def descriptor_set(path: Path) -> bytes:
    """The descriptor set of a `.proto` file and its imports from its directory.

    Any other file must be a descriptor set already. Raises `UserError`.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; name a .proto file, or a descriptor set"
        ) from error
    if path.suffix != ".proto":
        return content
    with TemporaryDirectory(prefix="ottla-proto-") as name:
        for known, text in _CONFLUENT.items():
            _write(Path(name), known, text)
        return _run_protoc(path.name, [path.parent, Path(name)])


def _write(directory: Path, path: str, content: str) -> None:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\0" in path or not parts.parts:
        raise UserError(f"{path!r} is not a path that a Protobuf schema may import")
    place = directory / parts
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path!r} is not a path that a Protobuf schema may import") from error


def _run_protoc(main: str, places: Sequence[Path]) -> bytes:
    """Runs protoc in a separate process, because it writes errors to its standard error."""
    with TemporaryDirectory(prefix="ottla-proto-") as name:
        out = Path(name) / "set"
        done = _finished(
            [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                *(f"--proto_path={one}" for one in [*places, *_well_known()]),
                "--include_imports",
                f"--descriptor_set_out={out}",
                main,
            ]
        )
        if done.returncode == 0:
            return out.read_bytes()
    lines = [
        one
        for one in done.stderr.splitlines()
        if _FAULT.match(one) and ": warning:" not in one.lower()
    ]
    words = lines[0] if lines else f"protoc ended with {done.returncode}"
    for place in places:
        words = words.removeprefix(f"{place}/")
    raise UserError(f"this is not a Protobuf schema: {words.removeprefix(f'{_MAIN}:')}")


def _finished(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"this Protobuf schema takes more than {PATIENCE_S} s to compile"
        ) from error


@lru_cache(maxsize=1)
def _well_known() -> tuple[Path, ...]:
    """The directories of `google/protobuf`, and of `google/type` if installed.

    Raises `UserError` without a compiler.
    """
    with needed_for("a .proto text"):
        import grpc_tools
    places = [Path(str(grpc_tools.__file__)).parent / "_proto"]
    try:
        types = find_spec("google.type")
    except ModuleNotFoundError:
        types = None
    for place in (types.submodule_search_locations if types else None) or ():
        places.append(Path(place).parent.parent)
    return tuple(places)
