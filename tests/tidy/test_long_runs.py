"""What is too long for `make test-all` is run by `make crash`: a moved folder was left out."""

import re
from pathlib import Path

from tests.tidy.test_house_rules import ROOT, SOURCES

LONG = re.compile(r"\bcrash_seconds\b|\bmark\.long\b")


def test_make_crash_names_what_there_is_and_all_that_is_long() -> None:
    (command,) = re.findall(r"^\t(.*--crash-seconds.*)$", (ROOT / "Makefile").read_text(), re.M)
    named = [ROOT / one for one in re.findall(r"\btests/\S+", command)]
    assert [path for path in named if not path.exists()] == []
    tests = [path for path in SOURCES if path.name.startswith("test_") and path != Path(__file__)]
    long = [path for path in tests if LONG.search(path.read_text())]
    assert long
    assert [one for one in long if not any(one.is_relative_to(path) for path in named)] == []
