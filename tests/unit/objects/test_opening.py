from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.objects.directory_store import DirectoryStore
from ottla.objects.opening import open_store
from ottla.testing import FakeFileSystem


def test_a_path_opens_a_directory_on_the_disk_that_is_given(tmp_path: Path) -> None:
    disk = FakeFileSystem()
    store = open_store(str(tmp_path), "tier", disk)
    assert isinstance(store, DirectoryStore)
    assert (store.address, store.file_system) == (str(tmp_path), disk)


def test_a_url_opens_an_object_store_without_asking_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    store = open_store("s3://bucket/tier/", "tier")
    assert (store.address, store.read_ahead > 0) == ("s3://bucket/tier", True)
    with pytest.raises(UserError, match="a tier lies in a directory"):
        open_store("ftp://bucket/tier", "tier")
