"""Patterns that are compiled when they are first used."""

import re

import pytest

from ottla.base.patterns import lazy_pattern


def test_a_lazy_pattern_finds_what_a_compiled_one_finds() -> None:
    for text, flags in ((r"(a+)-(?P<rest>\w*)", 0), ("A", re.IGNORECASE), (rb"\d+", 0)):
        lazy, compiled = lazy_pattern(text, flags), re.compile(text, flags)
        where = b"a 12 b 345" if isinstance(text, bytes) else "aa-b A aaa-c"
        assert [one.span() for one in lazy.finditer(where)] == [  # type: ignore[call-overload]
            one.span()
            for one in compiled.finditer(where)  # type: ignore[call-overload]
        ]
        assert (lazy.pattern, lazy.flags, lazy.groupindex) == (
            compiled.pattern,
            compiled.flags,
            compiled.groupindex,
        )


def test_a_pattern_is_compiled_when_it_is_used_and_refused_then_if_it_is_wrong() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.search("")
