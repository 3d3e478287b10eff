"""A broker of a KRaft cluster follows what Kafka's controllers have recorded, batch by batch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.partitions import TopicPartition
from ottla.metadata.following import MetadataFollower
from ottla.metadata.image import MetadataImage
from ottla.record.batch import iter_batches
from tests.support import SHARED
from tests.support.scripted_images import FollowingMember

RECORDED = (SHARED or Path("none")) / "recorded" / "kraft"
LOGS = sorted(RECORDED.glob("logdirs/*/__cluster_metadata-0/00000000000000000000.log"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LOGS, reason="needs the shared directories"),
]


def images_of(log: Path) -> Iterator[MetadataImage]:
    """The image after each batch of a log that begins with the cluster."""
    follower = MetadataFollower()
    for batch in iter_batches(log.read_bytes()):
        records = bytes(batch.bytes_view())
        follower.take_records(
            "recorded", records, follower.end_offset + batch.last_offset_delta + 1
        )
        yield follower.image()


def placed(image: MetadataImage, node: int) -> dict[TopicPartition, tuple[str, int, int, int]]:
    """What a broker does by an image, as `FollowingMember.roles` says it."""
    found = {}
    for name, topic in image.topics.items():
        for index, one in topic.partitions.items():
            if node in one.replicas:
                role = {node: "Leading", -1: "NoneType"}.get(one.leader, "Following")
                place = TopicPartition(name, index)
                found[place] = (role, one.leader, one.leader_epoch, one.partition_epoch)
    return found


@pytest.mark.parametrize("log", LOGS[:1], ids=lambda path: path.parent.parent.name)
@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_broker_does_after_each_batch_what_the_image_says(log: Path, node: int) -> None:
    member = FollowingMember(node_id=str(node))
    seen: set[TopicPartition] = set()
    for image in images_of(log):
        member.show(image)
        assert member.roles() == placed(image, node)
        seen |= member.roles().keys()
        for place, one in member.replicas.manager.partitions.items():
            known = image.partition(place)
            assert known is not None
            leading = member.replicas.manager.leading(place)
            assert leading is None or leading.isr.committed == set(known.isr)
            assert one.topic_id == image.topics[place.topic].topic_id
        topics = {topic.name: topic.overrides for topic in member.broker.topics}
        assert topics == {name: dict(image.topics[name].configs) for name in topics}
    assert len(seen) > 3
    assert member.complaints == []
