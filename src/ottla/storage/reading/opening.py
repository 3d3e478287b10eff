"""Opens the log directories of a broker for reading, with or without its tier."""

from collections.abc import Callable, Sequence

from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.storage.findings import Finding
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory, open_for_reading


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPlace:
    """`address` is a directory or a URL; `keys` the file of a private key, or a folder of them."""

    address: str
    keys: str | None = None


def open_directories(
    paths: Sequence[str],
    file_system: FileSystem | None = None,
    *,
    on_damage: Callable[[Finding], None] | None = None,
    tier: TierPlace | None = None,
) -> list[ReadOnlyLogDirectory]:
    """Opens the log directories of one broker, with what its `tier` has of their partitions.

    Raises `UserError` if one of them is none, or nothing is found in place of the tier.
    """
    if tier is None:
        return [open_for_reading(path, file_system, on_damage=on_damage) for path in paths]
    # Imported here: few logs have a tier.
    from ottla.storage.reading.tiered_files import TieredFiles
    from ottla.storage.remote.opening import open_tier

    files = TieredFiles(open_tier(tier.address, keys=tier.keys), paths, on_damage)
    return [open_for_reading(path, files, on_damage=on_damage, tiers=files) for path in paths]
