"""Ranges of addresses in access rules, as Kafka's `CidrUtils` reads them."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.acl_hosts import HostRanges, check_host, comparable_range, parse_range


@pytest.mark.parametrize(
    ("text", "range_"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("010.0.0.1/08", "10.0.0.0/8"),
        ("10.0.0.5/32", "10.0.0.5/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("FD00::1/8", "fd00::/8"),
        ("2001:db8:0:0::/32", "2001:db8::/32"),
        ("::/0", "::/0"),
    ],
)
def test_a_range_is_read_and_compared_by_its_prefix(text: str, range_: str) -> None:
    check_host(text, 32)
    assert comparable_range(text) == range_


@pytest.mark.parametrize(
    "text",
    ["10.0.0.0/33", "10.0.0/8", "10.0.256.0/8", "10.0.0.0/255.0.0.0", "10.0.0.0/", "/8", "host/8",
     "10.0.0.0/8/8", "10.0.0.0/+8", "2001:db8::/129", "2001:zz8::/32", "::ffff:10.0.0.0/104",
     "fe80::1%eth0/64", "10.0.0.0/-1", "10.0.0.0/²"],
)  # fmt: skip
def test_what_is_no_range_is_refused_in_one_line_that_names_it(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_host(text, 32)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert f"Invalid CIDR notation '{text}': " in str(refused.value.message)
    assert "\n" not in str(refused.value.message)
    assert comparable_range(text) == text


def test_a_level_without_ranges_refuses_them_and_takes_addresses() -> None:
    for level in (0, 7, 31):
        with pytest.raises(ApiError, match=r"10\.0\.0\.0/8.*metadata\.version 32") as refused:
            check_host("10.0.0.0/8", level)
        assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
        for host in ("*", "10.0.0.1", "fd00::1"):
            check_host(host, level)


def test_ranges_are_found_by_addresses_of_their_kind_and_by_ranges_within() -> None:
    ranges = HostRanges()
    for text in ("10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "fd00::/8", "::/0"):
        ranges.put(text)
    assert set(ranges.containing("10.1.2.3")) == {"10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0"}
    assert set(ranges.containing("11.1.2.3")) == {"0.0.0.0/0"}
    assert set(ranges.containing("fd12::1")) == {"fd00::/8", "::/0"}
    assert set(ranges.containing("fd12::1%eth0")) == {"fd00::/8", "::/0"}
    assert set(ranges.containing("10.1.2.0/24")) == {"10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0"}
    assert set(ranges.containing("10.0.0.0/7")) == {"0.0.0.0/0"}
    assert not [*ranges.containing("*"), *ranges.containing("host"), *ranges.containing("a/8")]


addresses = st.one_of(
    st.integers(0, 15).map(lambda one: f"10.0.0.{one}"),
    st.integers(0, 15).map(lambda one: f"fd00::{one:x}"),
)
some_ranges = st.one_of(
    st.tuples(addresses, st.integers(28, 32)).map(lambda one: f"{one[0]}/{one[1]}"),
    st.tuples(addresses, st.integers(124, 128))
    .filter(lambda one: ":" in one[0])
    .map(lambda one: f"{one[0]}/{one[1]}"),
).map(comparable_range)


@given(st.lists(st.tuples(st.booleans(), some_ranges), max_size=20), addresses)
def test_whatever_came_and_went_the_ranges_with_an_address_are_found(
    changes: list[tuple[bool, str]], address: str
) -> None:
    ranges, there = HostRanges(), list[str]()
    for is_new, text in changes:
        if is_new:
            ranges.put(text)
            there.append(text)
        elif text in there:
            ranges.drop(text)
            there.remove(text)
    expected = {one for one in there if ip_address(address) in ip_network(one)}
    found = list(ranges.containing(address))
    assert set(found) == expected
    assert len(found) == len(expected)


@given(st.text(alphabet="0123456789abcdef.:/%*[]+- ", max_size=20))
def test_no_text_causes_another_error(text: str) -> None:
    ranges = HostRanges()
    ranges.put(comparable_range(text))
    assert list(ranges.containing(text)) in ([], [comparable_range(text)])
    try:
        parse_range(text)
    except ValueError:
        return
    assert comparable_range(text) in ranges.containing(text)
