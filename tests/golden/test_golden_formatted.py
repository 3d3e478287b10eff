"""Directories that Apache Kafka has formatted and never started: Ottla begins their log."""

import shutil
from pathlib import Path

import pytest

from ottla.base.errors import ApiError
from ottla.base.files import OsFileSystem
from ottla.metadata.deciding.topics import NewTopic
from tests.support import SHARED
from tests.support.metadata import image_of
from tests.support.serving import open_broker

FORMATTED = (SHARED or Path("none")) / "recorded" / "kraft" / "dynamic" / "formatted"

pytestmark = pytest.mark.skipif(not FORMATTED.exists(), reason="needs the shared directory")


@pytest.fixture
def formatted(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of one of them, which may be written to."""
    copy = tmp_path / "logdir"
    shutil.copytree(FORMATTED / str(request.param), copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


@pytest.mark.parametrize("formatted", ["standalone", "scram"], indirect=True)
def test_a_node_by_itself_continues_with_what_it_was_formatted_with(formatted: Path) -> None:
    before = image_of(OsFileSystem(), str(formatted))
    for name in ("t", "u"):
        broker = open_broker(formatted)
        assert set(broker.security.image.credentials) == {
            (user, "SCRAM-SHA-256") for user, _ in before.credentials
        }
        broker.admin.create_topic(NewTopic(name=name, partition_count=1))
        broker.close()
    after = image_of(OsFileSystem(), str(formatted))
    assert set(after.topics) == {"t", "u"}
    assert after.credentials == before.credentials
    assert after.features == before.features == {"metadata.version": 21}
    assert (after.epoch, after.voters) == (2, {101})
    (partition,) = after.topics["t"].partitions.values()
    assert (partition.replicas, partition.leader) == ((101,), 101)


@pytest.mark.parametrize("formatted", ["initial-controllers"], indirect=True)
def test_a_node_of_several_is_left_alone(formatted: Path) -> None:
    before = {path: path.read_bytes() for path in formatted.rglob("__cluster_metadata-0/*")}
    broker = open_broker(formatted)
    with pytest.raises(ApiError, match="of a cluster with other nodes"):
        broker.admin.create_topic(NewTopic(name="t"))
    broker.close()
    assert {path: path.read_bytes() for path in before} == before
