"""CRC-32C (Castagnoli), which protects v2 batches and producer snapshots.

The `crc32c` package uses the processor's instruction: 20 GB/s and more from 16 KB up. It is
imported when first called, since it takes 25 ms to look up its own version.
"""

from collections.abc import Callable

from ottla.base.files import Buffer


def crc32c(buffer: Buffer) -> int:
    """The checksum as an unsigned 32-bit number; takes a view without copying it."""
    return _compute(buffer)


def _import_and_compute(buffer: Buffer) -> int:
    global _compute
    from crc32c import crc32c as imported

    _compute = imported
    return _compute(buffer)


_compute: Callable[[Buffer], int] = _import_and_compute
