"""Each segment of each recorded tier, written again from its files, by the settings of its broker:
the same objects, byte for byte. What Aiven's plug-in drew at random is taken from the recording.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.base.files import OsFileSystem
from ottla.storage.remote import aiven_settings
from ottla.storage.remote.aiven_encryption import private_keys
from ottla.storage.remote.aiven_layout import main_key
from ottla.storage.remote.metadata_records import decode_event
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from ottla.storage.remote.settings import CLASS_NAME, remote_storage_of
from tests.golden.test_golden_remote_log_metadata import CASES, RECORDED, metadata_in, told
from tests.support.copying import segment_files
from tests.support.tier_readers import files_below, oaep_opened, opening, stored_sizes
from tests.support.tiers import AIVEN_INDEXES

pytestmark = [
    pytest.mark.skipif(not CASES, reason="needs the recorded tiers"),
    pytest.mark.slow,
]


def settings_of(case: str, place: Path) -> tuple[str, dict[str, str]]:
    """The class and the settings of the tier, which lies elsewhere now."""
    told = json.loads((RECORDED / case / "manifest.json").read_text())["settings"]
    every = told if CLASS_NAME in told else next(iter(told.values()))
    prefix = "rsm.config."
    found = {name.removeprefix(prefix): one for name, one in every.items() if prefix in name}
    for name, value in found.items():
        if name in ("dir", "storage.root"):
            found[name] = str(place)
        elif value.startswith("keys/"):
            file = value.replace("private.pem", "private.der.hex")
            found[name] = str(RECORDED / case / file)
    return every[CLASS_NAME], found


def finished(case: str) -> Iterator[tuple[RemoteLogSegmentMetadata, bytes | None]]:
    """Uploads as they began, with the custom metadata of their end."""
    events = [decode_event(base64.b64decode(row["value"])) for row in told(case)]
    begun = {one.segment_id: one for one in events if isinstance(one, RemoteLogSegmentMetadata)}
    for directory in sorted((RECORDED / case).glob("logdir*"))[:1]:
        for index in metadata_in(directory).indexes:
            for one in index.segments():
                if one.state is SegmentState.COPY_SEGMENT_FINISHED:
                    yield begun[one.segment_id], one.custom_metadata


class Recorded:
    """What is drawn for a segment that was encrypted, in the order in which it is asked for."""

    def __init__(self, objects: Mapping[str, bytes], key: str, private: Any) -> None:
        manifest = json.loads(objects[f"{key}.rsm-manifest"])
        assert opening(manifest, private)
        _, _, sealed = manifest["encryption"]["dataKey"].partition(":")
        data_key, seed = oaep_opened(base64.b64decode(sealed), private)
        self.left = [data_key, base64.b64decode(manifest["encryption"]["aad"]), seed]
        position = 0
        for size in stored_sizes(manifest["chunkIndex"]):
            self.left.append(objects[f"{key}.log"][position : position + 12])
            position += size
        for name in AIVEN_INDEXES:
            where = manifest["segmentIndexes"][name]
            if where is not None and where["size"]:
                at = where["position"]
                self.left.append(objects[f"{key}.indexes"][at : at + 12])

    def __call__(self, size: int) -> bytes:
        found = self.left.pop(0)
        assert len(found) == size
        return found


def copied(
    tier: RemoteStorage, source: RemoteStorage, one: RemoteLogSegmentMetadata, path: Path
) -> bytes | None:
    indexes = {kind: source.read_index(one, kind) for kind in IndexType}
    files = segment_files(
        source.read_log(one, 0, one.size),
        {kind: content for kind, content in indexes.items() if content is not None},
        str(path),
    )
    return tier.copy_segment(one, files)


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_tier_is_written_again_byte_for_byte(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = RECORDED / case / "keys"
    source = open_tier(str(RECORDED / case / "tier"), keys=str(keys) if keys.is_dir() else None)
    recorded = files_below(RECORDED / case / "tier")
    class_name, settings = settings_of(case, tmp_path / "tier")
    private = None
    if keys.is_dir():
        pytest.importorskip("cryptography")
        (private,) = private_keys((keys / "private.der.hex").read_bytes(), "a key")
    count = 0
    for one, custom_metadata in finished(case):
        if private is not None:
            drawn = Recorded(recorded, main_key(one), private)
            monkeypatch.setattr(aiven_settings, "token_bytes", drawn)
        tier = remote_storage_of(class_name, settings, file_system=OsFileSystem())
        assert copied(tier, source, one, tmp_path / "data") == custom_metadata
        if private is not None:
            assert drawn.left == []
        count += 1
    written = files_below(tmp_path / "tier")
    assert count
    assert set(written) <= set(recorded)
    assert {path: recorded[path] for path in written} == written
    # What was not written is of uploads that were not finished, or whose deletion had begun.
    logs = sum(path.endswith(".log") for path in recorded)
    assert sum(path.endswith(".log") for path in written) == count >= logs - 3
    listed = remote_storage_of(class_name, settings).segments()
    assert sorted(one.segment_id for one in listed) == sorted(
        one.segment_id for one, _ in finished(case)
    )
