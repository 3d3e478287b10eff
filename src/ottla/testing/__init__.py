"""What Ottla is tested with, for the tests of its users too: a clock, disks that fail and forget.

May import every room; nothing imports it. Start at `file_system.py`, then `crash_points.py`.
"""

from ottla.testing.clock import FakeClock
from ottla.testing.crash import CrashMode
from ottla.testing.crash_points import CrashPoint, every_crash_point
from ottla.testing.faults import Effect, FaultPlan, FaultyFileSystem, SimulatedCrash
from ottla.testing.file_system import FakeFileSystem
from ottla.testing.recording import IoCall, IoKind, RecordingFileSystem

__all__ = [
    "CrashMode",
    "CrashPoint",
    "Effect",
    "FakeClock",
    "FakeFileSystem",
    "FaultPlan",
    "FaultyFileSystem",
    "IoCall",
    "IoKind",
    "RecordingFileSystem",
    "SimulatedCrash",
    "every_crash_point",
]
