"""What Ottla is tested with, for the tests of its users too: a clock, disks that fail and forget.

May import every room; nothing imports it. Start at `file_system.py`, then `crash_points.py`.
"""

from ottla.testing.clock import FakeClock
from ottla.testing.crash import CrashMode
from ottla.testing.file_system import FakeFileSystem

__all__ = ["CrashMode", "FakeClock", "FakeFileSystem"]
