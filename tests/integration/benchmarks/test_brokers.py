"""Which brokers can be measured here, and why others cannot."""

import os
from pathlib import Path

from benchmarks.brokers import SOURCE, CompiledOttla


def compiled_at(package: Path) -> CompiledOttla:
    broker = CompiledOttla()
    broker.package = package
    return broker


def test_a_copy_that_is_not_compiled_or_older_than_the_sources_is_not_measured(
    tmp_path: Path,
) -> None:
    broker = compiled_at(tmp_path)
    assert broker.absence() == (
        "its copy is missing, or older than the sources; run: make compiled"
    )
    (tmp_path / ".ready").touch()
    assert broker.absence() == "there is no compiler here that compiles it"
    module = tmp_path / "ottla" / "server" / "listener.cpython-311-x86_64-linux-gnu.so"
    module.parent.mkdir(parents=True)
    module.touch()
    assert broker.absence() is None
    oldest_s = min(one.stat().st_mtime for one in SOURCE.rglob("*.py"))
    os.utime(tmp_path / ".ready", (oldest_s - 1, oldest_s - 1))
    assert "older" in str(broker.absence())
