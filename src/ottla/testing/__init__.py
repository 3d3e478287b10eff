"""Test tools, also for users: a broker, clocks, and disks that fail.

May import every package; nothing imports this one. Start at `broker.py`, or at `file_system.py` and
then `crash_points.py`.
"""

from ottla.base.clock import Clock
from ottla.base.files import (
    DiskSpace,
    File,
    FileLock,
    FileSlice,
    FileStatus,
    FileSystem,
    Numbers,
)
from ottla.protocol.api_keys import ApiKey
from ottla.testing.broker import LocalBroker
from ottla.testing.clock import FakeClock, MovableClock
from ottla.testing.crash import CrashMode
from ottla.testing.crash_points import CrashPoint, every_crash_point
from ottla.testing.faults import Effect, FaultPlan, FaultyFileSystem, SimulatedCrash
from ottla.testing.file_system import FakeFileSystem
from ottla.testing.produced import ProducedRecord
from ottla.testing.recording import IoCall, IoKind, RecordingFileSystem

__all__ = [
    "ApiKey",
    "Clock",
    "CrashMode",
    "CrashPoint",
    "DiskSpace",
    "Effect",
    "FakeClock",
    "FakeFileSystem",
    "FaultPlan",
    "FaultyFileSystem",
    "File",
    "FileLock",
    "FileSlice",
    "FileStatus",
    "FileSystem",
    "IoCall",
    "IoKind",
    "LocalBroker",
    "MovableClock",
    "Numbers",
    "ProducedRecord",
    "RecordingFileSystem",
    "SimulatedCrash",
    "every_crash_point",
]
