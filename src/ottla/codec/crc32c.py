"""CRC-32C (Castagnoli), the checksum of v2 batches and producer snapshots.

The `crc32c` package uses the processor's instruction, with 20 GB/s and more from 16 KiB. Its
extension module is imported on the first call, and without the package, which takes 25 ms to look
up its own version.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import cast

from ottla.base.files import Buffer


def crc32c(buffer: Buffer) -> int:
    """The checksum as an unsigned 32-bit number; a view is not copied."""
    return _compute(buffer)


def extended_crc32c(buffer: Buffer, checksum: int) -> int:
    """The checksum of the data with checksum `checksum`, followed by `buffer`."""
    return _compute(buffer, checksum)


def checksum_function() -> Callable[[Buffer], int]:
    """What `crc32c` calls, for loops that call it for each of many batches."""
    _compute(b"")  # which imports it
    return _compute


def _import_and_compute(buffer: Buffer, checksum: int = 0) -> int:
    global _compute
    _compute = _imported()
    return _compute(buffer, checksum)


def _imported() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("crc32c._crc32c", places) if places else None
    if spec is None or spec.loader is None:
        # The package is in an archive, or its extension has another name.
        from crc32c import crc32c as imported

        return imported
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    return cast(Callable[..., int], extension.crc32c)


_compute: Callable[..., int] = _import_and_compute
