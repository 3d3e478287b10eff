"""Writes and compiles the function that writes one message in one version.

The function is generated for the same reason as in `schema_reader`. Adjacent fields of fixed size
are packed by one `struct` call, together with the length of the next field and with empty sections
of tagged fields between them, so that a small response takes three or four appends.
"""

import struct
from collections.abc import Callable
from typing import Any

from ottla.codec.fields import Field
from ottla.codec.primitives import (
    FIXED_FORMATS,
    FIXED_SIZES,
    append_records,
    append_tagged_field,
    encode_error_text,
    records_size,
    unsupported,
)
from ottla.codec.source import Source, default_expression, layout
from ottla.codec.varint import write_unsigned_varint

ERROR_CODE = "error_code"
"""The name of the field for error codes in Kafka's messages, 0 for no error."""

EMPTY_TAGS = ("x", "")
"""A zero byte, which `struct` writes without an argument: no tagged fields."""


def compile_writer(message: Any, version: int, is_flexible: bool) -> Callable[..., Any]:
    """`write(message, output)` for one version."""
    compiler = WriterCompiler(version, is_flexible)
    source = compiler.message(message)
    return source.function("write", f"{message.__name__} version {version}, writer")


class WriterCompiler:
    """Emits the writer of one message; `data` is the output's bytearray."""

    def __init__(self, version: int, is_flexible: bool) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self.source = Source()
        self.source.names |= {
            "append_records": append_records,
            "append_tagged_field": append_tagged_field,
            "encode_error_text": encode_error_text,
            "pack": struct.pack,
            "records_size": records_size,
            "unsupported": unsupported,
            "write_varint": write_unsigned_varint,
        }
        self._run: list[tuple[str, str]] = []
        """The fields for the next `pack`: (format character, expression)."""
        self._is_in_tag = False

    def message(self, message: Any) -> Source:
        with self.source.block("def write(message, output):"):
            self.source.line("data = output.data")
            self._struct(message, "message")
            self._flush()
        return self.source

    def _struct(self, struct_type: Any, value: str) -> None:
        tagged: list[Field] = []
        for field in struct_type.FIELDS:
            if not field.is_in(self.version):
                self._refuse_unless_default(field, f"{value}.{field.name}")
        for field in struct_type.FIELDS:
            if not field.is_in(self.version):
                continue
            if field.tag is None:
                self._field(field, f"{value}.{field.name}")
            else:
                tagged.append(field)
        if self.is_flexible:
            self._tagged_fields(sorted(tagged, key=lambda field: field.tag or 0), value)
        assert self.is_flexible or not tagged, "tags need a flexible version"

    def _refuse_unless_default(self, field: Field, value: str) -> None:
        if field.ignorable:
            return
        with self.source.block(f"if {self._differs(field, value)}:"):
            self.source.line(f"raise unsupported({field.name!r}, {self.version})")

    def _differs(self, field: Field, value: str) -> str:
        """An expression that is true if a field does not have its default."""
        if field.default is None and field.kind != "nested":
            return f"{value} is not None"
        if field.default == () and field.kind == "array":
            return value if field.nullable is None else f"({value} is None or len({value}) > 0)"
        if field.kind == "nested" and (field.default is None and field.nullable is None):
            # A struct of defaults is equivalent to `None`; see `fields.nested`.
            blank = self.source.constant(f"blank_{field.struct.__name__}", field.struct())
            return f"({value} is not None and {value} != {blank})"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {default_expression(self.source, field)}"

    def _field(self, field: Field, value: str) -> None:
        if field.kind in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.kind], value))
            if field.name == ERROR_CODE:
                with self.source.block(f"if {value}:"):
                    self.source.line(f"output.error_codes.append({value})")
        elif field.kind == "nested":
            self._nested(field, value)
        elif field.kind == "array":
            self._array(field, value)
        else:
            self._sized(field, value)

    def _flush(self, *more: tuple[str, str]) -> None:
        """Emits the `pack` of the pending run, followed by `more`, and keeps the run."""
        run = [*self._run, *more]
        if not run:
            return
        letters = "".join(letter for letter, _ in run)
        arguments = ", ".join(expression for _, expression in run if expression)
        if letters == "B":
            self.source.line(f"data.append({arguments})")
        elif not arguments:
            self.source.line(f"data += {bytes(len(letters))!r}")
        else:
            pack = self.source.constant(f"pack_{letters}", layout(letters).pack)
            self.source.line(f"data += {pack}({arguments})")

    def _end_run(self) -> None:
        self._flush()
        self._run = []

    def _varint(self, value: str) -> None:
        """Emits the writing of an unsigned varint; its usual one byte is packed with the run."""
        with self.source.block(f"if {value} < 128:"):
            self._flush(("B", value))
        with self.source.block("else:"):
            self._end_run()
            self.source.line(f"write_varint(data, {value})")

    def _length(self, field: Field, length: str, value: str) -> None:
        """Emits the writing of a length or count; `length` is an expression for non-null values."""
        source = self.source
        name = source.fresh("length")
        shift = " + 1" if self.is_flexible else ""
        if field.is_nullable_in(self.version):
            null = 0 if self.is_flexible else -1
            source.line(f"{name} = {null} if {value} is None else {length}{shift}")
        else:
            if field.nullable is not None:
                with source.block(f"if {value} is None:"):
                    source.line(f"raise unsupported('null as {field.name}', {self.version})")
            source.line(f"{name} = {length}{shift}")
        if self.is_flexible:
            self._varint(name)
        else:
            self._run.append(("h" if field.kind == "string" else "i", name))
            self._end_run()

    def _sized(self, field: Field, value: str) -> None:
        """Emits the writing of a string, bytes or records."""
        source = self.source
        content = source.fresh(field.name)
        source.line(f"{content} = {value}")
        length = f"len({content})"
        if field.kind == "records":
            assert not self._is_in_tag, "records in a tagged field"
            length = f"records_size({content})"
        elif field.kind == "string":
            encoded = f"{content}.encode()"
            if field.name.endswith("error_message"):
                encoded = f"encode_error_text({content})"
            if field.nullable is None:
                source.line(f"{content} = {encoded}")
            else:
                source.line(f"if {content} is not None:")
                source.line(f"    {content} = {encoded}")
        self._length(field, length, content)
        append = f"append_records(output, {content})"
        if field.kind != "records":
            append = f"data += {content}"
        if field.is_nullable_in(self.version):
            source.line(
                f"if {content}:" if field.kind != "records" else f"if {content} is not None:"
            )
            append = "    " + append
        source.line(append)

    def _nested(self, field: Field, value: str) -> None:
        source = self.source
        name = source.fresh(field.name)
        if not field.is_nullable_in(self.version):
            source.line(f"{name} = {value}")
            self._struct(field.struct, name)
            return
        self._end_run()
        source.line(f"{name} = {value}")
        with source.block(f"if {name} is None:"):
            source.line("data.append(255)")
        with source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(field.struct, name)
            self._end_run()

    def _array(self, field: Field, value: str) -> None:
        source = self.source
        items = source.fresh(field.name)
        source.line(f"{items} = {value}")
        self._length(field, f"len({items})", items)
        element = field.element
        loop = f"{items} or ()" if field.is_nullable_in(self.version) else items
        if element is not None and element.kind in FIXED_FORMATS:
            letter = FIXED_FORMATS[element.kind]
            letters = f"f'>{{len({items})}}{letter}'"
            if element.kind == "uuid":
                letters = f"'>' + '{letter}' * len({items})"
            with source.block(f"if {items}:"):
                # A list of one element, such as the replicas of a single broker, is common.
                pack_one = source.constant(f"pack_{letter}", layout(letter).pack)
                one = f"{pack_one}({items}[0])"
                several = f"pack({letters}, *{items})"
                source.line(f"data += {one} if len({items}) == 1 else {several}")
            return
        one = source.fresh("one")
        in_turns = f"output.turn.written({loop}, data)"
        with source.block(f"for {one} in {loop} if output.turn is None else {in_turns}:"):
            if element is not None:
                self._field(element, one)
            else:
                self._struct(field.struct, one)
            self._end_run()

    def _tagged_fields(self, fields: list[Field], value: str) -> None:
        source = self.source
        if not fields:
            self._run.append(EMPTY_TAGS)
            return
        count = source.fresh("tags")
        flags = [source.fresh(f"has_{field.name}") for field in fields]
        for flag, field in zip(flags, fields, strict=True):
            source.line(f"{flag} = {self._differs(field, f'{value}.{field.name}')}")
        source.line(f"{count} = {' + '.join(f'(1 if {flag} else 0)' for flag in flags)}")
        self._run.append(("B", count))
        self._end_run()
        with source.block(f"if {count}:"):
            for flag, field in zip(flags, fields, strict=True):
                with source.block(f"if {flag}:"):
                    self._tagged_field(field, f"{value}.{field.name}")

    def _tagged_field(self, field: Field, value: str) -> None:
        assert field.tag is not None
        assert field.tag < 128
        source = self.source
        if field.kind in FIXED_FORMATS:
            self._run += [("B", str(field.tag)), ("B", str(FIXED_SIZES[field.kind]))]
            self._field(field, value)
            self._end_run()
            return
        # The content is written to another buffer, since its size comes before it.
        outer = source.fresh("outer")
        was_in_tag, self._is_in_tag = self._is_in_tag, True
        source.line(f"{outer} = data")
        source.line("data = bytearray()")
        self._field(field, value)
        self._end_run()
        source.line(f"append_tagged_field({outer}, {field.tag}, data)")
        source.line(f"data = {outer}")
        self._is_in_tag = was_in_tag
