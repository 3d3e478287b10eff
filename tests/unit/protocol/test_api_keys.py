"""Kafka's numbers for its requests."""

from ottla.protocol.api_keys import FIRST_FLEXIBLE_VERSIONS, NEVER, ApiKey


def test_the_numbers_are_kafkas_which_left_one_out() -> None:
    assert [key.value for key in ApiKey] == [*range(93), 94]


def test_every_api_says_where_it_becomes_flexible() -> None:
    assert set(FIRST_FLEXIBLE_VERSIONS) == set(ApiKey)
    never = {key for key, version in FIRST_FLEXIBLE_VERSIONS.items() if version == NEVER}
    assert never == {ApiKey.SASL_HANDSHAKE, ApiKey.OFFSET_DELETE}
