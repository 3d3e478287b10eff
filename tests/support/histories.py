"""Histories of small logs, and uploads of their offsets, for properties."""

from collections.abc import Mapping

from hypothesis import strategies as st

from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from tests.support.remote_segments import DELETING, FINISHED, PARTITION, STARTED, upload

END = 30


def entries(epochs: Mapping[int, int]) -> list[EpochEntry]:
    return [EpochEntry(epoch, start) for epoch, start in epochs.items()]


def index_of(*uploads: RemoteLogSegmentMetadata) -> SegmentIndex:
    index = SegmentIndex(PARTITION)
    for one in uploads:
        assert index.put(one) is None
    return index


offsets = st.integers(0, END - 1)
some_epochs = st.dictionaries(st.integers(0, 5), offsets, min_size=1, max_size=4).map(
    lambda found: dict(zip(sorted(found), sorted(found.values()), strict=True))
)


@st.composite
def uploads_of(
    draw: st.DrawFn, log: dict[int, int], *, others: bool = True
) -> list[RemoteLogSegmentMetadata]:
    """Uploads of the log's history, and with `others` of more histories."""
    made = []
    for number in range(draw(st.integers(0, 10))):
        history = draw(some_epochs) if others and draw(st.booleans()) else log
        start, end = sorted((draw(offsets), draw(offsets)))
        start = max(start, min(history.values()))
        epochs = cut(history, start, end)
        state = draw(st.sampled_from([FINISHED, FINISHED, FINISHED, STARTED, DELETING]))
        if epochs:
            made.append(upload(number, start, end, epochs, state))
    return made


def cut(history: dict[int, int], start: int, end: int) -> dict[int, int]:
    """The epochs that have records from `start` to `end`, as a segment has them."""
    found = {}
    for number, (epoch, first) in enumerate(history.items()):
        until = [*history.values(), END][number + 1]
        if first <= end and until > start and first < until:
            found[epoch] = max(first, start)
    return found


def epoch_of(log: dict[int, int], offset: int) -> int | None:
    return max((epoch for epoch, first in log.items() if first <= offset), default=None)


def ids(segment: RemoteLogSegmentMetadata, offset: int) -> set[int]:
    return {epoch for epoch, first, last in segment.epoch_ranges() if first <= offset <= last}
