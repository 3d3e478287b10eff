"""Lines for systemd's journal have priorities, and lines for anyone else have none."""

import io
import logging
import os
import sys
from pathlib import Path

import pytest

from ottla.cli.journal import is_read_by_journal, priority_mark
from ottla.cli.serve.log_formats import JournalFormatter


def test_only_the_stream_that_systemd_has_connected_is_read_by_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "stream").open("w") as stream, (tmp_path / "log").open("w") as redirected:
        found = os.fstat(stream.fileno())
        monkeypatch.setattr(sys, "stderr", stream)
        assert priority_mark(logging.ERROR) == ""
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        assert priority_mark(logging.ERROR) == "<3>"
        monkeypatch.setattr(sys, "stderr", redirected)
        assert priority_mark(logging.ERROR) == ""
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert not is_read_by_journal()


@pytest.mark.parametrize(
    ("level", "mark"),
    [
        (logging.CRITICAL, "<2>"),
        (logging.ERROR, "<3>"),
        (logging.WARNING, "<4>"),
        (logging.INFO, "<6>"),
        (logging.DEBUG, "<7>"),
    ],
)
def test_each_line_of_an_entry_has_the_priority_of_its_level(level: int, mark: str) -> None:
    record = logging.LogRecord("a", level, "", 0, "first\nsecond", (), None)
    line = JournalFormatter(logging.Formatter("%(message)s")).format(record)
    assert line == f"{mark}first\n{mark}second"
