"""The observed lags of groups, in memory and in a file that outlives the console.

docs/format/console-lags.md describes the file. A crash can leave its last line cut, and the last
lines away: damaged lines are named and left out.
"""

import json
import logging
import threading
from collections import OrderedDict, deque
from typing import Any, Final

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.codec.crc32c import crc32c
from ottla.console.state_directory import StateDirectory

logger = logging.getLogger(__name__)

NAME: Final = "lags"
MOST_SIZE: Final = 4 << 20
"""The bytes of the file, of which the older half is then removed."""
WRITE_EVERY_MS: Final = 10_000
"""How often a group's lag is written, however often it is looked at."""
SAMPLES: Final = 720
GROUPS: Final = 500


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lag of a group as observed at one time."""

    at_ms: int
    lag: int
    late_ms: int | None


class LagHistory:
    """The observed lags of the groups of a target; without a directory only in memory."""

    def __init__(self, directory: StateDirectory | None = None, target: str = "") -> None:
        self._directory = directory
        self._target = target
        self._lock = threading.Lock()
        self._of: OrderedDict[tuple[str, str], deque[LagSample]] = OrderedDict()
        self._written_ms: dict[tuple[str, str], int] = {}
        self._is_read = False
        self.remark = ""
        """What a page says of the file: damage, or why it is not written."""

    def add(self, user: str, group: str, sample: LagSample) -> list[LagSample]:
        """Adds a sample; returns all samples of the group that this user has seen, oldest first."""
        with self._lock:
            if not self._is_read:
                self._is_read = True
                self._read(sample.at_ms)
            samples = self._samples((user, group))
            if not samples or samples[-1].at_ms < sample.at_ms:
                samples.append(sample)
                self._write((user, group), sample)
            return list(samples)

    def _samples(self, key: tuple[str, str]) -> deque[LagSample]:
        samples = self._of.setdefault(key, deque(maxlen=SAMPLES))
        self._of.move_to_end(key)
        if len(self._of) > GROUPS:
            former, _ = self._of.popitem(last=False)
            self._written_ms.pop(former, None)
        return samples

    def _read(self, now_ms: int) -> None:
        if self._directory is None:
            return
        try:
            lines = self._directory.read(NAME).split(b"\n")
        except UserError as error:
            self.remark = f"Earlier lags are not shown: {error}"
            return
        damaged = 0
        for line in filter(None, lines):
            fields = _parsed(line)
            damaged += fields is None
            # A clock that was ahead would else keep the samples of today out.
            if fields is None or fields["target"] != self._target or fields["at_ms"] > now_ms:
                continue
            samples = self._samples((fields["user"], fields["group"]))
            if not samples or samples[-1].at_ms < fields["at_ms"]:
                samples.append(LagSample(fields["at_ms"], fields["lag"], fields["late_ms"]))
        if damaged:
            path = self._directory.path / NAME
            lines_text = "a line of it is" if damaged == 1 else f"{damaged:,} lines of it are"
            self.remark = f"{path}: {lines_text} damaged, so some earlier lags are not shown"
            logger.warning("%s", self.remark)

    def _write(self, key: tuple[str, str], sample: LagSample) -> None:
        if self._directory is None:
            return
        if sample.at_ms - self._written_ms.get(key, 0) < WRITE_EVERY_MS:
            return
        self._written_ms[key] = sample.at_ms
        try:
            line = _line(self._target, key, sample)
            self._directory.append_bounded(NAME, line, most_size=MOST_SIZE)
        except UserError as error:
            self.remark = f"Lags are not kept: {error}"


def _line(target: str, key: tuple[str, str], sample: LagSample) -> bytes:
    user, group = key
    fields = {"at_ms": sample.at_ms, "target": target, "user": user, "group": group,
              "lag": sample.lag, "late_ms": sample.late_ms}  # fmt: skip
    text = json.dumps(fields).encode()
    return b"%08x %s" % (crc32c(text), text)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The fields of a line; `None` if its checksum or anything else is wrong."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % crc32c(text):
        return None
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_whole = (
        isinstance(found, dict)
        and all(isinstance(found.get(name), str) for name in ("target", "user", "group"))
        and all(type(found.get(name)) is int for name in ("at_ms", "lag"))
        and (found.get("late_ms") is None or type(found["late_ms"]) is int)
    )
    return found if is_whole else None
