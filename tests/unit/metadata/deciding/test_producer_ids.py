"""Blocks of producer ids."""

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.deciding.idling import idle_records
from ottla.metadata.deciding.producer_ids import allocate_producer_ids
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import ProducerIdsRecord
from tests.support.kraft_images import a_broker, an_image, then


def test_each_block_begins_where_the_one_before_ended() -> None:
    image = an_image(brokers={1: a_broker(epoch=7)})
    blocks = []
    for _ in range(3):
        records, block = allocate_producer_ids(image, 1, 7)
        image = then(image, records)
        blocks.append(tuple(block))
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert records == [(ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=3000), 0)]


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 6), (1, 8), (2, 7)])
def test_who_is_not_registered_with_its_epoch_gets_none(broker_id: int, epoch: int) -> None:
    image = an_image(brokers={1: a_broker(epoch=7)})
    with pytest.raises(ApiError) as refused:
        allocate_producer_ids(image, broker_id, epoch)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_the_last_producer_ids_are_never_given_twice() -> None:
    image = replace(an_image(brokers={1: a_broker(epoch=7)}), next_producer_id=(1 << 63) - 1000)
    with pytest.raises(ApiError, match="All producer ids"):
        allocate_producer_ids(image, 1, 7)


def test_a_quorum_without_work_writes_a_record_that_changes_nothing() -> None:
    image = an_image(7)
    assert then(image, idle_records(image)).features == image.features
    assert idle_records(image)
    assert not idle_records(MetadataImage())
