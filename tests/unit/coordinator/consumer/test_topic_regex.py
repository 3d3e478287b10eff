"""Expressions for topics: equal to Python's where both know the syntax, and never slow."""

import contextlib
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.coordinator.consumer.topic_regex import RegexError, TopicRegex

NAMES = ["", "a", "b", "ab", "aab", "orders", "orders.eu", "Orders-1", "__consumer_offsets", "x_9"]

pieces = st.sampled_from(["a", "b", "o", "r", ".", r"\.", "[ab]", "[^a]", r"\w", r"\d", "^", "$"])
expressions = st.recursive(
    pieces,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(text=expressions, name=st.one_of(st.sampled_from(NAMES), st.text("abor._9", max_size=6)))
def test_it_matches_what_pythons_expressions_match(text: str, name: str) -> None:
    assert TopicRegex(text).matches(name) == bool(re.fullmatch(text, name, re.ASCII))


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("orders", {"orders"}),
        ("^orders.*", {"orders", "orders.eu"}),
        ("(?i)orders.*", {"orders", "orders.eu", "Orders-1"}),
        ("(?i:o)rders-1", {"Orders-1"}),
        (r"\Qorders.\Eeu", {"orders.eu"}),
        (r"orders\.eu", {"orders.eu"}),
        (r"[[:alpha:]]+", {"a", "b", "ab", "aab", "orders"}),
        (r"[[:^alpha:]]\w*", {"__consumer_offsets"}),
        (r"[\d_a]+", {"a"}),
        (r"[]a]", {"a"}),
        (r"[a-]b", {"ab"}),
        (r"\x61\x{62}", {"ab"}),
        (r"(?P<name>a)b|(?<other>aa)b", {"ab", "aab"}),
        (r"orders\b.*", {"orders", "orders.eu"}),
        (r"orders\B.*", set()),
        (r"\Aa\z", {"a"}),
        ("a{2}b", {"aab"}),
        ("", {""}),
        ("()|a", {"", "a"}),
        ("(a|)b", {"b", "ab"}),
        (r"\p{Lu}\pL*-\pN", {"Orders-1"}),
    ],
)
def test_it_knows_the_syntax_of_re2(text: str, matched: set[str]) -> None:
    assert {name for name in NAMES if TopicRegex(text).matches(name)} == matched


@pytest.mark.parametrize(
    "text",
    ["(", ")", "a)", "(a", "[", "[a", "[b-a]", "*a", "a**", "a+*", "a{2}{3}", "a{1001}", "a{3,2}",
     "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a)", r"(a)\1", "\\", r"\y", r"\x", r"\xzz",
     r"\x{110000}", "[[:none:]]", "(?P<>a)", "(?z)a", "((a{100}){100}){100}",
     "\ud800"],
)  # fmt: skip
def test_an_invalid_expression_is_an_error_with_a_reason(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RegexError, match=r"\w+"):
        TopicRegex(text)
    assert capfd.readouterr() == ("", "")


@given(text=st.one_of(st.text(), st.text(r"ab.*+?()[]{}|\^$-:<>=!?PQEx19,", max_size=30)))
@example("a{9999999999}")
def test_garbage_is_an_expression_or_an_error(text: str) -> None:
    with contextlib.suppress(RegexError):
        TopicRegex(text).matches("some-topic")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["(a*)*b", "(a|aa)+b", ".*.*.*.*.*.*.*=", "(a?){200}a{200}b"])
def test_no_expression_takes_longer_than_its_length_allows(text: str) -> None:
    # Of processor time, and by far: a search that goes back would take years.
    begin = time.process_time()
    assert not TopicRegex(text).matches("a" * 249)
    assert time.process_time() - begin < 60
