import os

import pytest

from ottla.base.errors import UserError
from ottla.objects.addresses import check_provider, full_address, is_address


def test_a_path_is_made_absolute_and_a_url_loses_the_slash_at_its_end() -> None:
    assert full_address("tiers/a") == f"{os.getcwd()}/tiers/a"
    assert full_address("s3://bucket/tier/") == "s3://bucket/tier"
    assert (is_address("S3://bucket"), is_address("c:/tier")) == (True, False)


@pytest.mark.parametrize("address", ["file:///tier", "local:/tier", "s3:/bucket/tier"])
def test_a_misspelled_address_is_not_taken_for_a_path(address: str) -> None:
    with pytest.raises(UserError, match=address):
        full_address(address)


def test_an_address_of_no_known_store_is_refused_by_what_should_lie_there() -> None:
    with pytest.raises(UserError, match=r"hdfs://node/a: a tier lies in a directory, given by"):
        check_provider("hdfs://node/a", "tier")
    with pytest.raises(UserError, match=r"s3://: write s3://BUCKET/TIER"):
        check_provider("s3://", "tier")
    check_provider("abfss://container/tier", "tier")
