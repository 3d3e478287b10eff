"""What is known of the directories of a broker."""

from collections.abc import Mapping

from ottla.broker.adoption.found_metadata import FoundMetadata
from ottla.config.broker import BrokerConfig
from ottla.diagnosis.directories import Directories
from ottla.testing import FakeFileSystem


def test_a_running_broker_is_asked_once_for_the_settings_of_a_topic() -> None:
    """A topic may have thousands of partitions, each of which is looked at."""
    asked: list[str] = []

    def settings(topic: str) -> Mapping[str, str]:
        asked.append(topic)
        return {"retention.ms": "5"}

    directories = Directories(
        opened=[],
        file_system=FakeFileSystem(),
        broker=BrokerConfig(),
        has_properties=True,
        found=FoundMetadata(path=None, reason=""),
        topic_settings=settings,
        given={"segment.bytes": "2000"},
    )
    for topic in ("a", "b", "a", "a"):
        config = directories.config(topic)
        assert (config.retention_ms, config.segment_bytes) == (5, 2000)
    assert asked == ["a", "b"]
