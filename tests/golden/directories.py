"""The golden log directories, file by file, each beside what `kafka-dump-log` says of it."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.base.files import OsFileSystem
from tests.support import SHARED

GOLDEN = SHARED / "golden" if SHARED else Path("no golden directories")
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/logdir"))

FILES = OsFileSystem()

OVERWRITTEN = "kill9-recovered/logdir/k9-badindex-0/"
"""Indexes that were filled with 0xff on purpose, below the recovery point: Kafka left them so."""


@dataclass(frozen=True)
class GoldenFile:
    path: Path
    dump: str | None
    """`None` where there is no dump of this file."""

    @property
    def base_offset(self) -> int:
        return int(self.path.name.split(".")[0])

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()

    def dumped(self, pattern: str) -> list[tuple[int, ...]]:
        """The numbers in the dump's lines that match the pattern's groups as a whole."""
        assert self.dump is not None
        matches = (re.fullmatch(pattern, line.strip()) for line in self.dump.splitlines())
        return [tuple(int(group) for group in match.groups()) for match in matches if match]


def copy_of(case: str, place: Path) -> Path:
    """A copy of a case's log directory, to be opened as a broker's.

    A case has some partitions of a broker's only. The checkpoints that name all are cut down to
    those, since a partition that is named and not there is one that was lost.
    """
    shutil.copytree(GOLDEN / case / "logdir", place, copy_function=shutil.copyfile)
    for checkpoint in place.glob("*-offset-checkpoint"):
        if not checkpoint.stat().st_size:
            continue  # as the broker that was copied while it ran
        version, _, *entries = checkpoint.read_text().splitlines()
        kept = [one for one in entries if (place / "-".join(one.split()[:2])).is_dir()]
        checkpoint.write_text("\n".join([version, str(len(kept)), *kept, ""]))
    return place


def golden_files(case: str, name_pattern: str) -> Iterator[GoldenFile]:
    """The files of a case's log directory, partitions included, whose name matches a glob."""
    for path in sorted((GOLDEN / case / "logdir").rglob(name_pattern)):
        if is_overwritten(path):
            continue
        dump = GOLDEN / case / "dump" / path.parent.name / (path.name + ".txt")
        yield GoldenFile(path, dump.read_text() if dump.exists() else None)


def is_overwritten(path: Path) -> bool:
    return OVERWRITTEN in str(path) and path.name.endswith("index") and b"\xff" in path.read_bytes()


def overwritten_files(name_pattern: str) -> list[Path]:
    return [path for path in GOLDEN.glob(OVERWRITTEN + name_pattern) if is_overwritten(path)]
