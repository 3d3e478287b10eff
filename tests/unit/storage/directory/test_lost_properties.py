"""A directory whose `meta.properties` is lost, with its copy, is refused by the file's name."""

import pytest

from ottla.base.files import join
from ottla.storage.directory.directory_claim import UnusableDirectoryError
from ottla.storage.files.filenames import COPIED_META_PROPERTIES, META_PROPERTIES
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, open_directory


@pytest.mark.parametrize("lost", [[META_PROPERTIES], [META_PROPERTIES, COPIED_META_PROPERTIES]])
def test_a_directory_without_meta_properties_is_refused_by_their_name(lost: list[str]) -> None:
    disk = FakeFileSystem()
    open_directory(disk).close()
    for name in lost:
        disk.remove(join(DIRECTORY, name))
    with pytest.raises(UnusableDirectoryError, match=r"data/meta\.properties .*missing; restore"):
        open_directory(disk)
