"""Writes and compiles the function that reads one message in one version.

A general reader would check the versions, type and nullability of each field of each request, which
are known beforehand. A function that is generated for one version only reads: adjacent fields of
fixed size are read by one `struct` call, nested structs are inline, and each value is stored
directly in its slot. This is five to ten times as fast as walking the declaration. A produce
request with one record spends most of its time in these functions.

The source text is only built from declarations in this code base, never from received data.
"""

import struct
from collections.abc import Callable
from typing import Any

from ottla.base.errors import ProtocolError
from ottla.base.turns import FREED_AT_ONCE
from ottla.codec.fields import Field
from ottla.codec.primitives import (
    FIXED_FORMATS,
    FIXED_SIZES,
    MAX_STRING_SIZE,
    MalformedError,
    read_tag,
    skip_tagged_fields,
)
from ottla.codec.source import Source, default_expression, layout
from ottla.codec.varint import read_unsigned_varint


def compile_reader(message: Any, version: int, is_flexible: bool) -> Callable[..., Any]:
    """`read(buffer, position, pace=None) -> (message, position)` for one version.

    With a `Pace` the elements of all arrays are counted and read in turns, into its lists.
    """
    compiler = ReaderCompiler(version, is_flexible)
    source = compiler.message(message)
    return source.function("read", f"{message.__name__} version {version}, reader")


class ReaderCompiler:
    """Emits the reader of one message; `p` is the position, `limit` the size of the buffer."""

    def __init__(self, version: int, is_flexible: bool) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self.source = Source()
        self.source.names |= {
            "MalformedError": MalformedError,
            "ProtocolError": ProtocolError,
            "StructError": struct.error,
            "new": object.__new__,
            "read_tag": read_tag,
            "read_varint": read_unsigned_varint,
            "skip_tagged_fields": skip_tagged_fields,
            "unpack_from": struct.unpack_from,
        }
        self._run: list[tuple[str, str]] = []
        """The fields of fixed size for the next `unpack`: (format character, target)."""

    def message(self, message: Any) -> Source:
        source = self.source
        with source.block("def read(buffer, p, pace=None):"):
            source.line("if type(buffer) is not memoryview:")
            source.line("    buffer = memoryview(buffer)")
            source.line("limit = len(buffer)")
            with source.block("try:"):
                self._struct(message, "message")
                self._flush()
            with source.block("except (StructError, IndexError, ValueError) as error:"):
                title = f"{message.__name__} version {self.version}"
                source.line(f"raise ProtocolError(f'{title}: {{error}}') from error")
            source.line("return message, p")
        return source

    def _struct(self, struct_type: Any, into: str) -> None:
        source = self.source
        source.line(f"{into} = new({source.constant(struct_type.__name__, struct_type)})")
        tagged: list[Field] = []
        present: list[Field] = []
        for field in struct_type.FIELDS:
            if field.is_in(self.version):
                (present if field.tag is None else tagged).append(field)
                if field.tag is None:
                    continue
            source.line(f"{into}.{field.name} = {default_expression(source, field)}")
        for field in present:
            self._field(field, f"{into}.{field.name}")
        if self.is_flexible:
            self._tagged_fields(tagged, into)
        assert self.is_flexible or not tagged, "tags need a flexible version"

    def _field(self, field: Field, target: str) -> None:
        if field.kind in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.kind], target))
        elif field.kind == "nested":
            self._nested(field, target)
        elif field.kind == "array":
            self._array(field, target)
        else:
            self._sized(field, target)

    def _flush(self) -> None:
        """Emits the `unpack` of the pending run."""
        if not self._run:
            return
        letters = "".join(letter for letter, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        self._run = []
        if letters == "B":
            self.source.line(f"{targets} = buffer[p]")
            self.source.line("p += 1")
            return
        shape = layout(letters)
        unpack = self.source.constant(f"unpack_{letters}", shape.unpack_from)
        self.source.line(f"{targets}, = {unpack}(buffer, p)")
        self.source.line(f"p += {shape.size}")

    def _varint(self, stem: str, *, is_often_long: bool = False) -> str:
        """Emits the reading of an unsigned varint, whose first byte is read with the run before it.

        A varint of two bytes is read inline if that is the common case.
        """
        source = self.source
        name = source.fresh(stem)
        self._run.append(("B", name))
        self._flush()
        with source.block(f"if {name} > 127:"):
            if not is_often_long:
                source.line(f"{name}, p = read_varint(buffer, p - 1)")
                return name
            with source.block("if buffer[p] < 128:"):
                source.line(f"{name} = {name} & 127 | buffer[p] << 7")
                source.line("p += 1")
            with source.block("else:"):
                source.line(f"{name}, p = read_varint(buffer, p - 1)")
        return name

    def _length(self, field: Field, target: str) -> str:
        """Emits the reading of a length or count, and the branch for null.

        Returns the expression of the length. The caller must emit the `else:` branch next.
        """
        if self.is_flexible:
            name = self._varint("length", is_often_long=field.kind == "records")
            is_null, length = f"{name} == 0", f"{name} - 1"
        else:
            name = self.source.fresh("length")
            self._run.append(("h" if field.kind == "string" else "i", name))
            self._flush()
            is_null, length = f"{name} < 0", name
        with self.source.block(f"if {is_null}:"):
            if not field.is_nullable_in(self.version):
                self._malformed(f"{field.name} is null")
            else:
                if not self.is_flexible:
                    with self.source.block(f"if {name} != -1:"):
                        self._malformed(f"{field.name} has a negative length")
                self.source.line(f"{target} = None")
        return length

    def _malformed(self, reason: str) -> None:
        self.source.line(f"raise MalformedError({reason!r})")

    def _sized(self, field: Field, target: str) -> None:
        """Emits the reading of a string, bytes or records."""
        source = self.source
        length = self._length(field, target)
        end = source.fresh("end")
        with source.block("else:"):
            source.line(f"{end} = p + {length}")
            with source.block(f"if {end} > limit:"):
                self._malformed(f"{field.name} is cut short")
            if field.kind == "string":
                if self.is_flexible:
                    with source.block(f"if {end} - p > {MAX_STRING_SIZE}:"):
                        self._malformed(f"{field.name} is too long")
                source.line(f"{target} = str(buffer[p:{end}], 'utf-8')")
            elif field.kind == "binary":
                source.line(f"{target} = bytes(buffer[p:{end}])")
            else:
                source.line(f"{target} = buffer[p:{end}]")
            source.line(f"p = {end}")

    def _nested(self, field: Field, target: str) -> None:
        source = self.source
        name = source.fresh(field.name)
        if not field.is_nullable_in(self.version):
            self._struct(field.struct, name)
            source.line(f"{target} = {name}")
            return
        # KIP-893: a nullable struct begins with a byte that is negative for null.
        marker = source.fresh("marker")
        self._run.append(("b", marker))
        self._flush()
        source.line(f"if {marker} < 0:")
        source.line(f"    {target} = None")
        with source.block("else:"):
            self._struct(field.struct, name)
            self._flush()
            source.line(f"{target} = {name}")

    def _array(self, field: Field, target: str) -> None:
        source = self.source
        length = self._length(field, target)
        count = source.fresh("count")
        with source.block("else:"):
            source.line(f"{count} = {length}")
            smallest = self._smallest_element(field)
            product = count if smallest == 1 else f"{count} * {smallest}"
            with source.block(f"if {product} > limit - p:"):
                self._malformed(f"{field.name} has more elements than bytes are left")
            element = field.element
            if element is not None and element.kind in FIXED_FORMATS:
                letter = FIXED_FORMATS[element.kind]
                letters = f"f'>{{{count}}}{letter}'"
                if element.kind == "uuid":
                    letters = f"'>' + '{letter}' * {count}"
                source.line(f"if pace is not None: pace.count({count})")
                is_short = f"pace is None or {count} <= {FREED_AT_ONCE}"
                source.line(f"make = list if {is_short} else pace.array")
                source.line(f"{target} = make(unpack_from({letters}, buffer, p))")
                source.line(f"p += {count} * {FIXED_SIZES[element.kind]}")
            else:
                self._elements(field, target, count)

    def _elements(self, field: Field, target: str, count: str) -> None:
        source = self.source
        items = source.fresh("items")
        one = source.fresh("one")
        empty = f"[] if pace is None or {count} < 2 else pace.array()"
        source.line(f"{target} = {items} = {empty}")
        with source.block(f"for _ in range({count}) if pace is None else pace.elements({count}):"):
            if field.element is not None:
                self._field(field.element, one)
            else:
                self._struct(field.struct, one)
            self._flush()
            source.line(f"{items}.append({one})")

    def _tagged_fields(self, fields: list[Field], into: str) -> None:
        source = self.source
        count = source.fresh("tags")
        self._run.append(("B", count))
        self._flush()
        with source.block(f"if {count}:"):
            if not fields:
                source.line(f"p = skip_tagged_fields(buffer, p, {count}, pace)")
                return
            source.line(f"if {count} > 127:")
            source.line(f"    {count}, p = read_varint(buffer, p - 1)")
            tag, end = source.fresh("tag"), source.fresh("end")
            with source.block(
                f"for _ in range({count}) if pace is None else pace.elements({count}):"
            ):
                source.line(f"{tag}, p, {end} = read_tag(buffer, p)")
                for keyword, field in zip(["if", *["elif"] * len(fields)], fields, strict=False):
                    with source.block(f"{keyword} {tag} == {field.tag}:"):
                        self._field(field, f"{into}.{field.name}")
                        self._flush()
                source.line("else:")
                source.line(f"    p = {end}")
                with source.block(f"if p != {end}:"):
                    self._malformed("a tagged field's size does not match its content")

    def _smallest_element(self, field: Field) -> int:
        """The smallest size of an element in bytes, which limits the count of an array."""
        if field.element is not None:
            return self._smallest(field.element)
        return max(1, self._smallest_struct(field.struct))

    def _smallest_struct(self, struct_type: Any) -> int:
        fields = [one for one in struct_type.FIELDS if one.is_in(self.version) and one.tag is None]
        return sum(map(self._smallest, fields)) + self.is_flexible

    def _smallest(self, field: Field) -> int:
        if field.kind in FIXED_SIZES:
            return FIXED_SIZES[field.kind]
        if field.kind == "nested":
            is_nullable = field.is_nullable_in(self.version)
            return 1 if is_nullable else self._smallest_struct(field.struct)
        if self.is_flexible:
            return 1
        return 2 if field.kind == "string" else 4
