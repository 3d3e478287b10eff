"""What a power failure leaves of a disk: one of the states that a real one could be found in.

A file's unsynced changes each have their own outcome, so that what was written later can survive
what was written before it, in one file and between files. Entry changes are kept in their order
within a directory, and each whole, as a journalling file system does. What was synced is never
touched, except under an unsynced write that overwrites it.
"""

from collections.abc import Callable
from enum import Enum, auto
from itertools import pairwise
from random import Random

from ottla.testing.disk import (
    DirectoryNode,
    Disk,
    EntryChange,
    FileNode,
    Node,
    Resize,
    Standing,
    Write,
    overwrite,
)

SECTOR_SIZE = 512
"""What a disk writes whole or not at all."""


class CrashMode(Enum):
    """What a crash leaves of what was not synced.

    >>> disk = FakeFileSystem()
    >>> disk.open("notes", create=True, writable=True).close()
    >>> disk.crash(CrashMode.KEEP).list(".")
    ['notes']
    >>> disk.crash(CrashMode.STRICT).list(".")
    []
    """

    STRICT = "strict"
    """The power fails, and everything that was not synced is gone."""

    KEEP = "keep"
    """The process is killed: nothing is gone, and what was not synced still is not."""

    RANDOM = "random"
    """The power fails, and a seed decides what had reached the disk on its own."""


class WriteOutcome(Enum):
    """What becomes of one unsynced write."""

    WHOLE = auto()
    LOST = auto()
    PREFIX = auto()
    HOLES = auto()
    SIZE_ONLY = auto()


def crashed_disk(disk: Disk, mode: CrashMode, seed: int) -> Disk:
    """A new disk; the old one stays as it was, to crash again with another seed."""
    match mode:
        case CrashMode.KEEP:
            return disk.copy()
        case CrashMode.STRICT:
            entries = surviving_entries(disk, [])
            return _rebuilt(disk, entries, lambda node: node.synced_content())
        case CrashMode.RANDOM:
            entries = surviving_entries(disk, _kept_changes(disk.journal, Random(f"{seed}")))
            return _rebuilt(
                disk, entries, lambda node: torn_content(node, Random(f"{seed}/{node.number}"))
            )


Entries = Callable[[DirectoryNode], dict[str, Node]]


def surviving_entries(disk: Disk, kept: list[EntryChange]) -> Entries:
    """The durable entries of each directory, with the kept changes on top."""
    changed: dict[int, dict[str, Node]] = {}
    for change in kept:
        for edit in change:
            directory = edit.directory
            edit.apply(changed.setdefault(directory.number, dict(directory.durable)))
    return lambda directory: changed.get(directory.number, directory.durable)


def _rebuilt(disk: Disk, entries: Entries, content: Callable[[FileNode], bytearray]) -> Disk:
    """What can be reached from the root, all of it durable."""

    files: dict[int, FileNode] = {}

    def rebuild(node: Node) -> Node:
        if isinstance(node, FileNode):
            if (linked := files.get(node.number)) is not None:
                linked.link_count += 1
                return linked
            kept = content(node)
            made = FileNode(node.number, node.modified_ms, kept, bytes(kept))
            files[node.number] = made
            return made
        children = {name: rebuild(child) for name, child in entries(node).items()}
        return DirectoryNode(node.number, node.modified_ms, children, dict(children))

    root = rebuild(disk.root)
    assert isinstance(root, DirectoryNode)
    return disk.with_root(root)


def _kept_changes(journal: list[EntryChange], random: Random) -> list[EntryChange]:
    """A subset in which no directory has a change without all the earlier ones it stands on."""
    kept: list[EntryChange] = []
    ended: set[int] = set()
    keep_share = random.choice((0.0, 0.5, 0.8, 0.95, 1.0))
    for change in journal:
        touched = {edit.directory.number for edit in change}
        if ended.isdisjoint(touched) and random.random() < keep_share:
            kept.append(change)
        else:
            ended |= touched
    return kept


def torn_content(node: FileNode, random: Random) -> bytearray:
    """A file after a power failure: each unsynced write with a outcome of its own."""
    content = bytearray(node.durable)
    outcomes = random.choice(
        ((WriteOutcome.WHOLE,), (WriteOutcome.LOST,), tuple(WriteOutcome), tuple(WriteOutcome))
    )
    resize_is_lost = False
    for change in node.pending:
        if change.standing is Standing.SYNCED:
            change.apply(content)
        elif resize_is_lost:
            # A new size is journalled, and so are the blocks that later writes were given.
            continue
        elif isinstance(change, Resize):
            resize_is_lost = random.choice(outcomes) is WriteOutcome.LOST
            if not resize_is_lost:
                change.apply(content)
        else:
            tear(content, change, random.choice(outcomes), random)
    return content


def tear(content: bytearray, write: Write, outcome: WriteOutcome, random: Random) -> None:
    """Applies as much of a write as its outcome lets reach the disk."""
    size = len(write.data)
    match outcome:
        case WriteOutcome.WHOLE:
            write.apply(content)
        case WriteOutcome.LOST:
            pass
        case WriteOutcome.PREFIX:
            if random.random() < 0.5:
                _extend(content, write, random)
            overwrite(content, write.position, write.data[: random.randrange(size + 1)])
        case WriteOutcome.HOLES:
            _extend(content, write, random)
            pieces = _sectors(write)
            missing = set(random.sample(pieces, random.randint(1, len(pieces)))) if pieces else ()
            for start, end in pieces:
                if (start, end) not in missing:
                    overwrite(content, write.position + start, write.data[start:end])
        case WriteOutcome.SIZE_ONLY:
            _extend(content, write, random)


def _extend(content: bytearray, write: Write, random: Random) -> None:
    """The new size is on the disk, the data is not: zeros, or what the blocks held before."""
    content.extend(bytes(max(0, write.position - len(content))))
    size = max(0, write.position + len(write.data) - len(content))
    content.extend(random.choice((bytes(size), random.randbytes(size))))


def _sectors(write: Write) -> list[tuple[int, int]]:
    """A write cut at the disk's sectors, as ranges of its data."""
    cuts = range(SECTOR_SIZE - write.position % SECTOR_SIZE, len(write.data), SECTOR_SIZE)
    edges = [0, *cuts, len(write.data)]
    return [(start, end) for start, end in pairwise(edges) if start < end]
