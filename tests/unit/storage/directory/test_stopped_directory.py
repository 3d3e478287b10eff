"""A stopped directory whose metadata log a command changes: a crash meanwhile is noticed."""

import pytest

from ottla.base.files import join
from ottla.broker.metadata.log import METADATA_CONFIG
from ottla.storage.directory.stopped_directory import StoppedDirectory
from ottla.storage.files.filenames import CLEAN_SHUTDOWN
from ottla.storage.files.meta_properties import MetaProperties
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, disk, id_of, open_broker
from tests.support.metadata import image_of

PROPERTIES = MetaProperties(cluster_id="c", node_id=1, directory_id=id_of(1))
MARK = join("/d", CLEAN_SHUTDOWN)


def stopped() -> FakeFileSystem:
    files = disk("/d")
    broker = open_broker(files)
    broker.producer_ids.allocate()
    broker.close()
    return files


def test_the_directory_is_marked_as_stopped_before_and_after() -> None:
    files = stopped()
    before = image_of(files)
    with StoppedDirectory("/d", files, PROPERTIES, NOW_MS) as directory:
        assert files.status(MARK) is None
        log = directory.open_metadata_log(METADATA_CONFIG)
        assert directory.open_metadata_log(METADATA_CONFIG) is log
        assert log.log_end_offset == before.end_offset
        assert directory.directory_id == id_of(1)
    assert files.status(MARK) is not None
    assert image_of(files) == before


def test_after_an_error_it_is_not() -> None:
    files = stopped()

    def fail() -> None:
        with StoppedDirectory("/d", files, PROPERTIES, NOW_MS) as directory:
            directory.open_metadata_log(METADATA_CONFIG)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert files.status(MARK) is None


def test_without_a_log_to_open_nothing_is_created() -> None:
    files = disk("/d")
    open_broker(files).close()
    names = set(files.list("/d"))
    with StoppedDirectory("/d", files, PROPERTIES, NOW_MS):
        pass
    assert set(files.list("/d")) == names
