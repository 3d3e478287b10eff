"""Lines with checksums: those that are believed, and how many bytes they take."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.files.integrity_lines import checked_lines, line_of, size_of

WORDS = st.lists(st.text("abc-019", min_size=1, max_size=9), min_size=1, max_size=4)


@given(st.lists(WORDS, max_size=5))
def test_lines_that_are_whole_are_all_there(lines: list[list[str]]) -> None:
    content = b"".join(line_of(*words) for words in lines)
    found = checked_lines(content)
    assert found == [" ".join(words) for words in lines]
    assert size_of(found) == len(content)


@given(st.lists(WORDS, min_size=1, max_size=5), st.data())
def test_lines_end_before_the_first_that_is_damaged(
    lines: list[list[str]], data: st.DataObject
) -> None:
    written = [line_of(*words) for words in lines]
    content = bytearray(b"".join(written))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    sound = b"".join(written)[: bit // 8].count(b"\n")
    assert checked_lines(bytes(content)) == [" ".join(words) for words in lines[:sound]]


@given(st.binary(max_size=40))
def test_other_bytes_are_no_lines(content: bytes) -> None:
    assert size_of(checked_lines(content)) <= len(content)


def test_a_line_without_its_end_is_none() -> None:
    content = line_of("a") + line_of("b", "c")
    for size in range(len(line_of("a")), len(content)):
        assert checked_lines(content[:size]) == ["a"]
