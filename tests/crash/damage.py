"""Damage to a log directory, chosen by a seed: what a disk, or a person, does to its files.

`python -m tests.crash.test_damage SEED` shows what it is and what comes of it.
"""

import contextlib
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from ottla.storage.files.filenames import parse_directory_name

Deed = Callable[[random.Random, Path, Path], str | None]
"""Damages one of a directory's files; returns how, or `None` where that is not possible."""

FOLDER_SHARE = 0.2
SECOND_SHARE = 0.2


def damage(directory: Path, seed: int) -> list[str]:
    """Damages the directory once or twice, and says how; each begins with the path damaged."""
    chance = random.Random(seed)
    done = [_damage_once(chance, directory)]
    if chance.random() < SECOND_SHARE:
        done.append(_damage_once(chance, directory))
    return done


def _damage_once(chance: random.Random, directory: Path) -> str:
    while True:
        is_folder = chance.random() < FOLDER_SHARE
        deeds = FOLDER_DEEDS if is_folder else FILE_DEEDS
        target = choose_folder(chance, directory) if is_folder else choose_file(chance, directory)
        done = chance.choice(deeds)(chance, directory, target)
        if done is not None:
            return f"{target.relative_to(directory)}: {done}"


def kind_of(path: Path) -> str:
    """The kind of file that a name stands for: files of one kind are chosen among together."""
    name = path.name
    return name.lstrip("0123456789") if name[:20].isdigit() else name


def files_of(directory: Path) -> list[Path]:
    return sorted(one for one in directory.rglob("*") if one.is_file() and not one.is_symlink())


def partitions_of(directory: Path) -> list[Path]:
    found = (one for one in directory.iterdir() if parse_directory_name(one.name))
    return sorted(one for one in found if one.is_dir() and not one.is_symlink())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _copy(path: Path, new: Path) -> None:
    with contextlib.suppress(shutil.Error):  # of a FIFO, which the first damage may have put there
        shutil.copytree(path, new, symlinks=True)


def choose_file(chance: random.Random, directory: Path) -> Path:
    by_kind: dict[str, list[Path]] = {}
    for path in files_of(directory):
        by_kind.setdefault(kind_of(path), []).append(path)
    # What holds the records, or says what they are, is worth more tries than the rest.
    weights = [3 if kind.startswith(".") or "checkpoint" in kind else 1 for kind in by_kind]
    (kind,) = chance.choices(sorted(by_kind), weights)
    return chance.choice(by_kind[kind])


def choose_folder(chance: random.Random, directory: Path) -> Path:
    return chance.choice(partitions_of(directory))


# Files


def _delete(_: random.Random, __: Path, path: Path) -> str:
    path.unlink()
    return "deleted"


def _swap_with_its_kind(chance: random.Random, directory: Path, path: Path) -> str | None:
    others = [one for one in files_of(directory) if kind_of(one) == kind_of(path) and one != path]
    return _swap_with(path, chance.choice(others), directory) if others else None


def _swap_with_any(chance: random.Random, directory: Path, path: Path) -> str | None:
    others = [one for one in files_of(directory) if one != path]
    return _swap_with(path, chance.choice(others), directory)


def _swap_with(path: Path, other: Path, directory: Path) -> str | None:
    if path.read_bytes() == other.read_bytes():
        return None
    between = path.with_name("between")
    path.rename(between)
    other.rename(path)
    between.rename(other)
    return f"swapped with {other.relative_to(directory)}"


def _replace_by_copy(chance: random.Random, directory: Path, path: Path) -> str | None:
    others = [one for one in files_of(directory) if kind_of(one) == kind_of(path) and one != path]
    if not others:
        return None
    other = chance.choice(others)
    if other.read_bytes() == path.read_bytes():
        return None
    shutil.copyfile(other, path)
    return f"replaced by a copy of {other.relative_to(directory)}"


def _rename(chance: random.Random, _: Path, path: Path) -> str:
    new = path.with_name(chance.choice([path.name + ".bak", "x" + path.name, path.name[:-1]]))
    if path.name[:20].isdigit():
        moved = int(path.name[:20]) + chance.randrange(1, 50)
        new = chance.choice([new, path.with_name(f"{moved:020d}{path.name[20:]}")])
    if new.exists() or not new.name:
        new = path.with_name(path.name + ".old")
    path.rename(new)
    return f"renamed to {new.name}"


def _truncate(chance: random.Random, _: Path, path: Path) -> str | None:
    size = path.stat().st_size
    if not size:
        return None
    kept = chance.choice([0, chance.randrange(size), chance.randrange(size)])
    os.truncate(path, kept)
    return f"cut from {size} to {kept} bytes"


def _zero(chance: random.Random, _: Path, path: Path) -> str | None:
    content = bytearray(path.read_bytes())
    if not any(content):
        return None
    begin = chance.randrange(len(content))
    end = min(len(content), begin + chance.choice([1, 8, 64, 512, 4096]))
    if not any(content[begin:end]):
        return None
    content[begin:end] = bytes(end - begin)
    path.write_bytes(content)
    return f"bytes {begin} to {end} zeroed"


def _flip(chance: random.Random, _: Path, path: Path) -> str | None:
    content = bytearray(path.read_bytes())
    if not content:
        return None
    count = chance.choice([1, 1, 1, 2, 8])
    bits = sorted(chance.randrange(8 * len(content)) for _ in range(count))
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"bits {bits} flipped"


def _extend(chance: random.Random, _: Path, path: Path) -> str:
    size = chance.choice([1, 7, 61, 300, 5000])
    content = path.read_bytes()
    garbage = chance.choice([bytes(size), chance.randbytes(size), content[-size:]]) or b"\xff"
    path.write_bytes(content + garbage)
    return f"extended by {len(garbage)} bytes {garbage[:8]!r}"


def _fifo(_: random.Random, __: Path, path: Path) -> str:
    path.unlink()
    os.mkfifo(path)
    return "a FIFO in its place"


def _link(chance: random.Random, directory: Path, path: Path) -> str:
    others = [one for one in files_of(directory) if one != path]
    target = chance.choice([path, path.with_name("nowhere"), chance.choice(others)])
    path.unlink()
    path.symlink_to(target)
    return f"a link to {target.relative_to(directory)} in its place"


def _folder(chance: random.Random, _: Path, path: Path) -> str:
    path.unlink()
    path.mkdir()
    if chance.random() < 0.5:
        (path / "file").write_bytes(b"content")
    return "a folder in its place"


def _delete_segment(_: random.Random, __: Path, path: Path) -> str | None:
    if not path.name[:20].isdigit():
        return None
    files = [one for one in path.parent.iterdir() if one.name[:20] == path.name[:20]]
    for one in files:
        _remove(one)
    return f"deleted with all {len(files)} files of its segment"


def _copy_segment(chance: random.Random, directory: Path, path: Path) -> str | None:
    """To another name, in the same partition or another: as one who puts back the wrong files."""
    if not path.name[:20].isdigit():
        return None
    base_offset, place = path.name[:20], chance.choice(partitions_of(directory))
    shift = chance.choice([0, 1, 7, 50, 1000]) if place != path.parent else 1 + chance.randrange(50)
    copied = 0
    for one in sorted(path.parent.glob(f"{base_offset}*")):
        new = place / f"{int(base_offset) + shift:020d}{one.name[20:]}"
        if one.is_file() and not new.exists():
            shutil.copyfile(one, new)
            copied += 1
    return f"its segment copied to {place.name} at {int(base_offset) + shift}" if copied else None


def _unreadable(_: random.Random, __: Path, path: Path) -> str | None:
    if os.geteuid() == 0:  # who may read all the same
        return None
    path.chmod(0)
    return "unreadable"


FILE_DEEDS: list[Deed] = [
    _delete, _delete, _delete_segment, _copy_segment, _swap_with_its_kind, _swap_with_any,
    _replace_by_copy, _rename, _truncate, _truncate, _zero, _flip, _flip, _extend, _fifo, _link,
    _folder, _unreadable,
]  # fmt: skip


# Partitions' directories


def _delete_folder(_: random.Random, __: Path, path: Path) -> str:
    shutil.rmtree(path)
    return "deleted"


def _swap_folders(chance: random.Random, directory: Path, path: Path) -> str:
    other = chance.choice([one for one in partitions_of(directory) if one != path])
    between = directory / "between"
    path.rename(between)
    other.rename(path)
    between.rename(other)
    return f"swapped with {other.name}"


def _rename_folder(chance: random.Random, directory: Path, path: Path) -> str | None:
    topic, _, index = path.name.rpartition("-")
    ending = f".{chance.randbytes(16).hex()}" + chance.choice(["-delete", "-stray", "-future"])
    new = chance.choice(
        ["other-0", f"{topic}-{int(index) + 7}", path.name + ".old", topic, path.name + ending]
    )
    if (directory / new).exists():
        return None
    path.rename(directory / new)
    return f"renamed to {new}"


def _copy_folder(chance: random.Random, directory: Path, path: Path) -> str | None:
    topic, _, index = path.name.rpartition("-")
    new = chance.choice(["other-0", f"{topic}-{int(index) + 7}", path.name + ".copy"])
    if (directory / new).exists():
        return None
    _copy(path, directory / new)
    return f"copied to {new}"


def _replace_folder(chance: random.Random, directory: Path, path: Path) -> str:
    other = chance.choice([one for one in partitions_of(directory) if one != path])
    shutil.rmtree(path)
    _copy(other, path)
    return f"replaced by a copy of {other.name}"


def _empty_folder(chance: random.Random, _: Path, path: Path) -> str:
    kept = {"partition.metadata"} if chance.random() < 0.5 else set()
    for one in path.iterdir():
        if one.name not in kept:
            _remove(one)
    return f"emptied but for {sorted(kept)}"


def _not_a_folder(chance: random.Random, directory: Path, path: Path) -> str:
    other = chance.choice([one for one in partitions_of(directory) if one != path])
    shutil.rmtree(path)
    kind = chance.choice(["a file", "a FIFO", "a link to itself", f"a link to {other.name}"])
    if kind == "a file":
        path.write_bytes(b"content")
    elif kind == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "a link to itself" else other)
    return f"{kind} in its place"


FOLDER_DEEDS: list[Deed] = [
    _delete_folder, _swap_folders, _rename_folder, _copy_folder, _replace_folder, _empty_folder,
    _not_a_folder,
]  # fmt: skip


# Files that do not belong


def _plant(chance: random.Random, directory: Path, path: Path) -> str | None:
    """Something of any type, under a name that a start, a reader or a check looks at."""
    place = chance.choice([path.parent, path.parent, directory])
    name = _partition_name(chance, path) if place != directory else chance.choice(ROOT_NAMES)
    new = place / name
    if os.path.lexists(new):
        return None
    return f"{_put(chance, directory, path, new)} planted as {new.relative_to(directory)}"


def _partition_name(chance: random.Random, path: Path) -> str:
    if chance.random() < 0.2:
        return chance.choice(["leader-epoch-checkpoint", "partition.metadata", "x", "0.tmp"])
    bases = sorted({one.name[:20] for one in path.parent.glob("*.log")}) or ["0" * 20]
    base = chance.choice([*bases, *bases, f"{chance.randrange(60):020d}"])
    kind = chance.choice([".log", ".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
    return base + kind + chance.choice([".swap", ".swap", ".swap", ".cleaned", ".deleted", ""])


def _put(chance: random.Random, directory: Path, path: Path, new: Path) -> str:
    kind = chance.choice([*PUT, *PUT[:4]])
    source = chance.choice([one for one in files_of(directory) if kind_of(one) == kind_of(path)])
    content = bytearray(source.read_bytes())
    match kind:
        case "garbage":
            new.write_bytes(chance.randbytes(70))
        case "nothing":
            new.touch()
        case "a cut copy":
            new.write_bytes(content[: chance.randrange(len(content) + 1)])
        case "a copy with a flipped bit":
            if content:
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            new.write_bytes(content)
        case "a copy":
            new.write_bytes(content)
        case "a FIFO":
            os.mkfifo(new)
        case "a socket":
            with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(new.parent):
                one.bind(new.name)
        case "a link to nowhere":
            new.symlink_to(new.with_name("nowhere"))
        case "a link to itself":
            new.symlink_to(new)
        case "a link to a file":
            new.symlink_to(source)
        case "a link to a folder":
            new.symlink_to(path.parent)
        case _:
            new.mkdir()
            if chance.random() < 0.5:
                (new / "file").write_bytes(b"content")
    return f"{kind} of {source.relative_to(directory)}" if "copy" in kind else kind


PUT = (
    "garbage", "nothing", "a cut copy", "a copy with a flipped bit", "a copy", "a FIFO", "a socket",
    "a link to nowhere", "a link to itself", "a link to a file", "a link to a folder", "a folder",
)  # fmt: skip

ROOT_NAMES = (
    ".kafka_cleanshutdown", "cleaner-offset-checkpoint", "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "meta.properties",
    "meta.properties.tmp", "ottla-owner", "ottla-replicas", "ottla-snapshot",
    "ottla-metadata.written", "__cluster_metadata-0.tmp",
    "quorum-state", "bootstrap.checkpoint", "new-0", "plain-7",
    f"new-0.{32 * 'a'}-delete",
    "lost+found", "x",
)  # fmt: skip


def _damage_swap(chance: random.Random, directory: Path, path: Path) -> str | None:
    """What compaction leaves if it is cut off: a swap beside what it replaces, or in its place."""
    logs = sorted(path.parent.glob("*.log"))
    if len(logs) < 2:
        return None
    log = chance.choice(logs[:-1])
    content = bytearray(log.read_bytes())
    swap = log.with_name(log.name + ".swap")
    if not content or os.path.lexists(swap):
        return None
    kind = chance.choice(["whole", "emptied", "cut", "flipped", "zeroed", "extended"])
    match kind:
        case "emptied":
            content.clear()
        case "cut":
            del content[chance.randrange(len(content)) :]
        case "flipped":
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        case "zeroed":
            begin = chance.randrange(len(content))
            content[begin : begin + 64] = bytes(len(content[begin : begin + 64]))
        case "extended":
            content += chance.randbytes(61)
    swap.write_bytes(content)
    is_deleted = chance.random() < 0.3
    if is_deleted:
        for one in path.parent.glob(log.name[:20] + ".*"):
            if one.suffix in (".log", ".index", ".timeindex", ".txnindex"):
                one.rename(one.with_name(one.name + ".deleted"))
    where = "with its source deleted" if is_deleted else "beside its source"
    return f"{kind} as {swap.relative_to(directory)}, {where}"


FILE_DEEDS += [_plant, _plant, _plant, _damage_swap, _damage_swap]
