"""What ZooKeeper had of Kafka's cluster at several moments, recorded."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support import SHARED

RECORDED = SHARED / "recorded" / "zookeeper" if SHARED else None


@dataclass(frozen=True, slots=True)
class ZNode:
    path: str
    content: bytes | None
    version: int
    czxid: int
    is_ephemeral: bool


def dumps() -> list[Path]:
    """In the order of the scenario, that of 3.9 first."""
    if RECORDED is None:
        return []
    paths = [*RECORDED.glob("znodes-*.json"), *RECORDED.glob("ibp-2.4/znodes-*.json")]
    return sorted(paths, key=lambda path: ("ibp" in str(path), int(path.name.split("-")[1])))


@cache
def znodes(path: Path) -> dict[str, ZNode]:
    return {one.path: one for one in map(_node, json.loads(path.read_text()))}


def _node(fields: dict[str, object]) -> ZNode:
    data = fields["data"]
    return ZNode(
        path=str(fields["path"]),
        content=None if data is None else str(data).encode(),
        version=int(str(fields["version"])),
        czxid=int(str(fields["czxid"])),
        is_ephemeral=bool(fields["ephemeral"]),
    )


def transient() -> Iterator[tuple[str, bytes]]:
    """Nodes that came and went between two dumps."""
    assert RECORDED is not None
    for line in (RECORDED / "ibp-2.4" / "transient.jsonl").read_text().splitlines():
        fields = json.loads(line)
        if fields["data"] is not None:
            yield fields["path"], fields["data"].encode()
