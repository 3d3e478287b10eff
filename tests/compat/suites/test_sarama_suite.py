"""Where the run of sarama's tests takes them from."""

from pathlib import Path

import pytest

from tests.compat.suites.sarama_suite import OWN_SOURCES, own_sources


def test_folder_with_functional_tests_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "functional_client_test.go").touch()
    monkeypatch.setenv(OWN_SOURCES, str(tmp_path))

    assert own_sources() == tmp_path


def test_named_folder_without_functional_tests_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OWN_SOURCES, str(tmp_path))

    with pytest.raises(SystemExit, match=r"has no functional_\*test.go"):
        own_sources()


def test_without_a_named_folder_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OWN_SOURCES, raising=False)

    assert own_sources() is None
