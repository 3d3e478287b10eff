"""`ottla users`: passwords that are set, listed without themselves, and removed."""

from pathlib import Path

import pytest

from tests.unit.cli.administered import Administered, administered


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_USER_PASSWORD", "pot & kettle")


@pytest.mark.slow
def test_passwords_are_set_listed_and_removed(broker: Administered) -> None:
    assert broker.lines("users", "set", "TARGET", "ana") == [
        "user ana: password set for SCRAM-SHA-256, SCRAM-SHA-512"
    ]
    words = ("--mechanism", "SCRAM-SHA-512", "--iterations", "8192")
    broker.lines("users", "set", "TARGET", "bob", *words)
    assert broker.json("users", "list", "TARGET") == [
        {"user": "ana", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}},
        {"user": "bob", "mechanisms": {"SCRAM-SHA-512": 8192}},
    ]
    broker.lines("users", "remove", "TARGET", "ana", "--mechanism", "SCRAM-SHA-256")
    assert broker.lines("users", "remove", "TARGET", "ana") == ["user ana: removed SCRAM-SHA-512"]
    assert [one["user"] for one in broker.json("users", "list", "TARGET")] == ["bob"]
    assert broker.end("users", "remove", "TARGET", "bobby") == (
        1,
        "ottla: there is no user bobby; did you mean bob?",
    )


def test_only_the_owner_may_read_the_metadata_log_and_the_password_is_not_in_it(
    tmp_path: Path,
) -> None:
    with administered(tmp_path, is_served=False) as found:
        found.lines("users", "set", "TARGET", "ana")
        folder = Path(found.target) / "__cluster_metadata-0"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert b"kettle" not in (folder / f"{0:020}.log").read_bytes()
        lines = found.lines("log", "dump", "--deep", str(folder))
        shown = [one for one in lines if "UserScramCredentialRecord" in one]
        assert shown
        assert all("stored_key='[hidden]'" in one for one in shown)


def test_a_password_comes_from_a_file_or_a_question_and_is_never_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with administered(tmp_path, is_served=False) as found:
        (tmp_path / "secret").write_text("from a file\n")
        found.lines("users", "set", "TARGET", "a", "--password-file", str(tmp_path / "secret"))
        missing = str(tmp_path / "none")
        code, text = found.end("users", "set", "TARGET", "a", "--password-file", missing)
        assert (code, text.endswith("name a file with the password")) == (2, True)
        monkeypatch.setenv("OTTLA_USER_PASSWORD", "")
        assert found.end("users", "set", "TARGET", "a") == (2, "ottla: the password is empty")
