"""The text of Java's properties."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.storage.files.java_properties import parse_properties, properties_line

TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("  a = b  ", {"a": "b  "}),
        ("a:b=c", {"a": "b=c"}),
        ("a b c", {"a": "b c"}),
        ("a", {"a": ""}),
        ("a\\=b=c", {"a=b": "c"}),
        ("# a=b\n!c=d\n#\\\ne=f", {"e": "f"}),
        ("a=1\\\n   2\\\r\n\t3\nb=4", {"a": "123", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=\\t\\n\\q\\u00e4", {"a": "\t\nqä"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, fields: dict[str, str]) -> None:
    assert parse_properties(text) == fields


@pytest.mark.parametrize("text", ["a=\\u", "a=\\u12", "a=\\u12g4", "\\uz=1"])
def test_a_broken_code_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        parse_properties(text)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("a", "b", "a=b"),
        ("a b", " c d", "a\\ b=\\ c d"),
        ("a:=", "#!\\", "a\\:\\==\\#\\!\\\\"),
        ("ä", "\n\t", "\\u00E4=\\n\\t"),
    ],
)
def test_lines_are_escaped_as_java_escapes_them(key: str, value: str, line: str) -> None:
    assert properties_line(key, value) == line


@pytest.mark.slow
@given(TEXT, TEXT)
def test_a_line_is_read_back(key: str, value: str) -> None:
    assert parse_properties(properties_line(key, value)) == {key: value}
