"""Decodes JSON values with Arrow's parser: strict RFC 8259, one object per value.

A batch is parsed at once, its values joined by newlines. Every invalid value is detected for two
reasons: Each value begins with `{` and ends with `}`, so a value that is not closed is followed by
`}`, newline, `{`, which is not valid inside a JSON text; and newlines are not allowed in strings.
So a batch that parses is a sequence of complete objects, and if there are as many as values, each
value is one. If a batch fails, values with faults found by `json_faults` are removed, and the rest
is bisected until invalid values are isolated.
"""

from typing import Any

from ottla.base.json_texts import read, write
from ottla.base.patterns import lazy_pattern
from ottla.tables.values.decoder import Decoded, merged, require
from ottla.tables.values.json_faults import check_of, is_json, json_fault
from ottla.tables.values.json_leaves import lossy_texts, rewriter_of
from ottla.tables.values.json_maps import from_read, has_maps, read_type, rewriter
from ottla.tables.values.json_rest import lost_of, rest_texts, with_rescued
from ottla.tables.values.json_times import OTHER_TIME
from ottla.tables.values.schema import parse_schema, type_text

_SPACE = " \t\n\r"
# Arrow 26 crashes at a null between two objects, and accepts NaN and Infinity as numbers. In valid
# JSON these characters occur only in strings.
_SUSPICIOUS = r"\}[ \t\n\r]*null|[:,\[][ \t\n\r]*-?(?:NaN|Inf)"
_LONGEST_REASON = 200
"""The most characters of Arrow's reason, which may have all digits of a number."""
_ROW_NUMBER = lazy_pattern(r" in row \d+$")
_NOT_AN_OBJECT = "it is not a JSON object"
_NOT_ONE_OBJECT = "it is not one JSON object"
_NOT_UTF8 = "it is not UTF-8"
_LOST = (
    "it has a number with more digits than a double, or a time outside of the years 1 to 9999, "
    "and no column for what is left (--no-rescued)"
)


class JsonDecoder:
    """See `ValueDecoder`. Fields outside of the schema are dropped, or with `is_rescuing` kept in
    an additional column (`json_rest`); missing fields are null. Nothing is converted: `"1"` is not
    a number, 1 not a string, 1.0 not an int.
    """

    def __init__(self, schema: str, *, is_rescuing: bool = False) -> None:
        self._named = parse_schema(schema)
        _check_types(self._named, "value")
        self._check = check_of(self._named)
        self._read_type = read_type(self._named)
        self._type_with_texts = read_type(self._named, times_as_text=True)
        self._has_times = self._type_with_texts != self._read_type
        self._lossy_texts = lossy_texts(self._named)
        self._rewrite_leaves = rewriter_of(self._named)
        self._lost = lost_of(self._named)
        self._rewrite = rewriter(self._named) if has_maps(self._named) else None
        self._rest_texts = rest_texts(self._named) if is_rescuing else None
        self._type = with_rescued(self._named) if is_rescuing else self._named

    @property
    def type(self) -> Any:
        return self._type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        import pyarrow as pa

        faults: dict[int, str] = {}
        texts, places = self._texts(values, faults)
        rows, _ = self._parse(texts) if places else (pa.nulls(0, self._type), "")
        if rows is None:
            rows, places = self._parse_some(texts, places, faults)
        return Decoded(merged(len(values), rows, places, self._type), faults)

    def _parse_some(
        self, texts: Any, places: list[int], faults: dict[int, str]
    ) -> tuple[Any, list[int]]:
        """The rows of the valid texts, and their places; the other texts become faults."""
        import pyarrow as pa

        listed = [json_fault(text, self._check) for text in texts.to_pylist()]
        faults.update(
            {place: fault for place, fault in zip(places, listed, strict=True) if fault is not None}
        )
        left = [index for index, fault in enumerate(listed) if fault is None]
        texts, places = texts.take(pa.array(left, pa.int64())), [places[index] for index in left]
        found: list[Any] = []
        good: list[int] = []
        # ranges still to be parsed, the first one last
        ranges = [(0, len(left))] if left else []
        while ranges:
            start, end = ranges.pop()
            rows, reason = self._parse(texts.slice(start, end - start))
            if rows is not None:
                found.append(rows)
                good += places[start:end]
            elif end - start == 1:
                faults[places[start]] = reason
            else:
                middle = (start + end) // 2
                ranges += [(middle, end), (start, middle)]
        return pa.concat_arrays(found) if found else pa.nulls(0, self._type), good

    def _texts(self, values: Any, faults: dict[int, str]) -> tuple[Any, list[int]]:
        """The trimmed texts that may be objects, and their places; other values become faults."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            texts = _only_utf8(values, faults)
        texts = pc.utf8_trim(texts, _SPACE)
        is_object = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
        if texts.null_count == 0 and pc.all(is_object).as_py():
            return texts, list(range(len(texts)))
        for index in np.flatnonzero(~pc.fill_null(is_object, True).to_numpy(False)).tolist():
            faults[index] = _NOT_AN_OBJECT
        places = np.flatnonzero(pc.fill_null(is_object, False).to_numpy(False))
        return texts.take(pa.array(places)), places.tolist()

    def _parse(self, texts: Any) -> tuple[Any | None, str]:
        """One struct for each text; `None` and the reason unless all texts are valid objects."""
        import pyarrow as pa
        import pyarrow.compute as pc

        is_suspicious = pc.any(pc.match_substring_regex(texts, _SUSPICIOUS)).as_py()
        # Python's parser can decide only for a single text.
        if is_suspicious and (len(texts) > 1 or not is_json(texts[0].as_py())):
            return None, _NOT_ONE_OBJECT
        try:
            shown, lost = self._readable(texts)
            if self._rewrite is not None:
                shown = pa.array(self._rewrite(shown.to_pylist()), pa.string())
        except (ValueError, RecursionError) as error:
            return None, f"{_NOT_ONE_OBJECT}: {error}"
        if self._rest_texts is None:
            columns, reason = (None, _LOST) if lost else self._columns(shown, "ignore")
            return columns and self._struct(columns), reason
        # Most batches have no other fields, and are parsed once.
        columns, reason = self._columns(shown, "error")
        if columns is not None:
            places = lost
        else:
            columns, reason = self._columns(shown, "ignore")
            places = list(range(len(texts)))
        if columns is None:
            return None, reason
        try:
            return self._struct([*columns, self._rest(texts, places)]), ""
        except (ValueError, RecursionError) as error:
            return None, f"fields outside of the schema cannot be kept: {error}"

    def _rest(self, texts: Any, places: list[int]) -> Any:
        """The rests of the texts at these places, and null elsewhere."""
        import pyarrow as pa

        rests: list[str | None] = [None] * len(texts)
        if places:
            assert self._rest_texts is not None
            found = self._rest_texts(texts.take(pa.array(places)).to_pylist())
            for place, rest in zip(places, found, strict=True):
                rests[place] = rest
        return pa.array(rests, pa.string())

    def _readable(self, texts: Any) -> tuple[Any, list[int]]:
        """The texts as Arrow reads them (`json_leaves`), and the places of those of which a part is
        left out.

        Raises `ValueError` or `RecursionError` for invalid JSON.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        found = None if self._lossy_texts is None else self._lossy_texts.among(texts)
        if found is None:
            return texts, []
        values = [read(one) for one in texts.filter(found).to_pylist()]
        rewritten = pa.array([write(self._rewrite_leaves(one)) for one in values], pa.string())
        places = zip(np.flatnonzero(found.to_numpy(False)).tolist(), values, strict=True)
        lost = [place for place, one in places if self._lost and self._lost(one) is not None]
        return pc.replace_with_mask(texts, found, rewritten), lost

    def _struct(self, columns: list[Any]) -> Any:
        import pyarrow as pa

        return pa.StructArray.from_arrays(columns, fields=list(self._type))

    def _columns(self, texts: Any, unexpected: str) -> tuple[list[Any] | None, str]:
        """The columns of the schema; `None` and the reason unless all texts are valid objects.

        `unexpected` is Arrow's behaviour for other fields.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._has_times and pc.any(pc.match_substring_regex(texts, OTHER_TIME)).as_py():
            try:
                return self._columns_of(texts, unexpected, self._type_with_texts)
            except pa.ArrowInvalid:
                pass  # Arrow's parser says what is wrong with a time.
        return self._columns_of(texts, unexpected, self._read_type)

    def _columns_of(self, texts: Any, unexpected: str, kind: Any) -> tuple[list[Any] | None, str]:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.json as arrow_json

        lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
        joined = pc.binary_join(lists, "\n").cast(pa.binary())[0].as_buffer()
        try:
            table = arrow_json.read_json(
                pa.BufferReader(joined),
                arrow_json.ReadOptions(use_threads=False, block_size=joined.size + 1),
                arrow_json.ParseOptions(
                    explicit_schema=pa.schema(list(kind)),
                    newlines_in_values=True,
                    unexpected_field_behavior=unexpected,
                ),
            )
        except pa.ArrowInvalid as error:
            reason = _ROW_NUMBER.sub("", str(error))
            return None, reason if len(reason) <= _LONGEST_REASON else reason[
                :_LONGEST_REASON
            ] + "…"
        if table.num_rows != len(texts):
            return None, _NOT_ONE_OBJECT
        columns = [table.column(field.name).combine_chunks() for field in self._named]
        return [
            from_read(one, field.type) for one, field in zip(columns, self._named, strict=True)
        ], ""


def _only_utf8(values: Any, faults: dict[int, str]) -> Any:
    """The values that are UTF-8, as text; the others become faults, and null."""
    import pyarrow as pa

    texts: list[str | None] = []
    for index, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            faults[index] = _NOT_UTF8
            texts.append(None)
    return pa.array(texts, pa.string())


def _check_types(kind: Any, place: str) -> None:
    """Raises `UserError` for types without an exact representation in JSON."""
    import pyarrow.types as types

    if types.is_struct(kind):
        require(kind.num_fields > 0, f"{place}: a struct without fields cannot be stored")
        for field in kind:
            _check_types(field.type, f"{place}.{field.name}")
    elif types.is_list(kind):
        _check_types(kind.value_type, f"{place}[]")
    elif types.is_map(kind):
        _check_types(kind.item_type, f"{place}{{}}")
    else:
        is_offered = not (types.is_binary(kind) or types.is_date(kind))
        require(
            is_offered,
            f"{place}: {type_text(kind)} cannot be checked in JSON; use string, or a struct",
        )
