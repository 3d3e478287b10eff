import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.remote.aiven_custom_metadata import (
    CustomMetadata,
    custom_metadata_bytes,
    read_custom_metadata,
)
from tests.support.tiers import compact_string, tagged_metadata

WRITTEN = (
    "AwAD4NwBAQcHdGllcnMvAkpKYWx6NC1lNlByUGdGQ1FMU1FyNUFVSzMyeWZ3LzAvMDAwMDAwMDAwMDAwMDAwMDAwMDAt"
    "TURJeHhXZU1TWlcxOE1jMExCN09jZw=="
)
"""As Aiven's plug-in wrote it."""


def test_what_the_plug_in_wrote_is_read_and_written_alike() -> None:
    content = base64.b64decode(WRITTEN)
    found = read_custom_metadata(content)
    assert found == CustomMetadata(
        remote_size=14128,
        object_prefix="tiers/",
        object_key="alz4-e6PrPgFCQLSQr5AUK32yfw/0/00000000000000000000-MDIxxWeMSZW18Mc0LB7Ocg",
    )
    assert custom_metadata_bytes(found) == content


def test_fields_may_be_left_out_or_unknown() -> None:
    assert read_custom_metadata(b"\0") == CustomMetadata()
    some = tagged_metadata((1, compact_string("tiers/")), (9, b"later"))
    assert read_custom_metadata(some) == CustomMetadata(object_prefix="tiers/")


@given(st.binary(max_size=40))
def test_garbage_is_refused_or_read(content: bytes) -> None:
    with suppress(ValueError):
        read_custom_metadata(content)


def test_a_message_that_is_cut_anywhere_is_refused() -> None:
    content = base64.b64decode(WRITTEN)
    for size in range(len(content)):
        with pytest.raises(ValueError, match=r"not a message of tagged fields|cut short"):
            read_custom_metadata(content[:size])
