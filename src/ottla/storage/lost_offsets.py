"""Which gaps of a log that is only read mean that batches are lost.

Compaction leaves gaps, and so may a follower. A broker of ours records from which offset on there
are none (`witness`, `seams`), and before it leaves one. Of a log that Kafka has written nobody
knows. Kafka has no counterpart: it goes on after a gap.
"""

from collections.abc import Callable

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.storage.read_damage import Damage
from ottla.storage.seams import Seams, gapless_from
from ottla.storage.witness import read_witness


class LostOffsetsError(CorruptionError):
    """Batches that nothing of is left; the error says which."""


class Gaps:
    """The gaps of one log. What is recorded is read when there is a gap, and before it counts."""

    def __init__(
        self, file_system: FileSystem, path: str, cleaned_until: Callable[[], int]
    ) -> None:
        self._file_system = file_system
        self._path = path
        self._cleaned_until = cleaned_until
        self._gapless_from: int | None = 0

    def damage(self, path: str, position: int, gap: tuple[int, int]) -> Damage | None:
        """What is lost in [gap[0], gap[1]) before a position, if anything is."""
        if self._lost(gap) is None:
            return None
        # Compaction may have left this gap since.
        self._gapless_from = self._recorded()
        lost = self._lost(gap)
        if lost is None:
            return None
        return Damage(
            path=path,
            position=position,
            end=position,
            reason="the batches before it are gone",
            from_offset=lost[0],
            until_offset=lost[1],
        )

    def check(self, path: str, position: int, gap: tuple[int, int]) -> None:
        """Raises `LostOffsetsError`."""
        damage = self.damage(path, position, gap)
        if damage is not None:
            error = damage.error()
            raise LostOffsetsError(error.path, error.position, error.reason)

    def _lost(self, gap: tuple[int, int]) -> tuple[int, int] | None:
        gapless = self._gapless_from
        if gapless is None or max(gap[0], gapless) >= gap[1]:
            return None
        return max(gap[0], gapless), gap[1]

    def _recorded(self) -> int | None:
        witness = read_witness(self._file_system, self._path)
        witnessed = None if witness is None else witness.gapless_from
        seam = Seams(self._file_system, self._path).recorded
        return gapless_from(witnessed, seam, self._cleaned_until())
