"""`ottla tokens`: made, listed without their secrets, renewed and ended, by users that log in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import LocalBroker
from tests.unit.cli.administered import Administered

pytestmark = pytest.mark.slow


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Any]:
    """Runs `ottla tokens` as a user."""
    with LocalBroker(
        tmp_path / "d", {"delegation.token.secret.key": "sealed"},
        security="SASL_PLAINTEXT", users={"ana": "x", "bob": "y"},
    ) as broker:  # fmt: skip
        found = Administered(broker.log, broker.address)

        def run(user: str, name: str, *words: str) -> tuple[int, list[str]]:
            path = tmp_path / f"{user}.properties"
            settings = broker.client_settings(user)
            path.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
            result = found.run("tokens", name, "TARGET", *words, "--command-config", str(path))
            return result.exit_code, result.output.splitlines()

        yield run


def test_a_token_is_made_listed_renewed_and_ended(tokens: Any, tmp_path: Path) -> None:
    secret = tmp_path / "job.token"
    code, lines = tokens("ana", "create", "--renewer", "bob", "--secret-file", str(secret))
    assert code == 0
    assert "valid for User:ana until" in lines[1]
    assert secret.stat().st_mode & 0o777 == 0o600
    word = secret.read_text().strip()
    assert word not in "".join(lines)
    for user in ("ana", "bob"):
        code, listed = tokens(user, "list", "--json")
        assert code == 0
        assert lines[0] in listed[0]
        assert word not in listed[0]
    code, said = tokens("bob", "renew", "--secret-file", str(secret), "--for", "1h")
    assert (code, said[0].startswith("valid until")) == (0, True)
    assert tokens("ana", "expire", "--secret-file", str(secret)) == (0, ["ended"])
    assert tokens("ana", "list")[1] == ["there are no delegation tokens that you may see"]


def test_a_token_is_ended_by_its_id(tokens: Any, tmp_path: Path) -> None:
    token = tokens("ana", "create", "--secret-file", str(tmp_path / "a"))[1][0]
    code, said = tokens("ana", "expire", token, "--in", "1h")
    assert (code, said[0].startswith("valid until")) == (0, True)
    assert tokens("ana", "expire", token) == (0, ["ended"])
    assert tokens("ana", "expire", token)[0] == 1
    both = ("expire", token, "--secret-file", str(tmp_path / "a"))
    for words in (both, ("expire",)):
        assert tokens("ana", *words) == (
            2,
            ["ottla: name a token, by its id or by --secret-file FILE"],
        )


def test_what_is_wrong_is_one_line(tokens: Any, tmp_path: Path) -> None:
    there, wrong = tmp_path / "there", tmp_path / "wrong"
    there.write_text("YWJj\n")
    wrong.write_text("?")
    for name, path, words in (
        ("create", there, "the file exists; name a new one"),
        ("renew", wrong, "does not hold a token's secret in base64"),
        ("renew", tmp_path / "none", "name the token's file"),
        ("expire", there, "DELEGATION_TOKEN_NOT_FOUND"),
    ):
        code, lines = tokens("ana", name, "--secret-file", str(path))
        assert code != 0
        assert len(lines) == 1
        assert words in lines[0]
