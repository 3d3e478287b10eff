"""Opens the log directories of a broker for reading, with or without its tier."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.storage.findings import Finding
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory, open_for_reading

if TYPE_CHECKING:
    from ottla.storage.reading.tier_share import TierShare
    from ottla.storage.remote.remote_storage import RemoteStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPlace:
    """`address` is a directory or a URL, and `keys` the file of a private key, or a folder of them.
    Or `config` is the file of a broker's settings, which say where its tier is, and name its keys.
    """

    address: str | None = None
    keys: str | None = None
    config: str | None = None

    def open(self) -> "RemoteStorage":
        """Raises `UserError`, also if nothing is found at the address."""
        # Imported here: few logs have a tier.
        from ottla.storage.remote.opening import open_tier
        from ottla.storage.remote.settings import tier_in_properties

        if self.config is not None:
            return tier_in_properties(self.config)
        assert self.address is not None, "a tier has an address, or is found by settings"
        return open_tier(self.address, keys=self.keys)


def open_directories(
    paths: Sequence[str],
    file_system: FileSystem | None = None,
    *,
    on_damage: Callable[[Finding], None] | None = None,
    tier: TierPlace | None = None,
    share: "TierShare | None" = None,
) -> list[ReadOnlyLogDirectory]:
    """Opens the log directories of one broker, with what its `tier` has of their partitions.

    A task has a `share` of what its plan found. Raises `UserError` if one of them is none, or
    nothing is found in place of the tier.
    """
    if tier is None:
        return [open_for_reading(path, file_system, on_damage=on_damage) for path in paths]
    # Imported here: few logs have a tier.
    from ottla.storage.reading.tiered_files import TieredFiles

    files = TieredFiles(tier.open(), paths, on_damage)
    if share is not None:
        files.take(share)
    return [open_for_reading(path, files, on_damage=on_damage, tiers=files) for path in paths]
