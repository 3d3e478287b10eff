"""`ottla context`: names for targets, in one person's file."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import cli


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("OTTLA_CONTEXTS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["context", *arguments])


def listed() -> list[dict[str, object]]:
    return [json.loads(line) for line in run("list", "--json").output.splitlines()]


def test_the_first_context_is_current_and_a_later_one_when_it_is_used() -> None:
    assert run("add", "local", "localhost:9092").exit_code == 0
    run("add", "prod", "kafka:9092")
    assert [(one["name"], one["is_current"]) for one in listed()] == [
        ("local", True),
        ("prod", False),
    ]
    run("use", "prod")
    assert run("show").output.startswith("prod (current): kafka:9092")
    run("use", "--none")
    assert not any(one["is_current"] for one in listed())


def test_a_removed_context_is_gone_and_no_longer_current() -> None:
    run("add", "local", "localhost:9092")
    assert run("remove", "local").exit_code == 0
    assert listed() == []
    assert run("show").exit_code == 2


def test_passwords_are_kept_for_this_person_and_not_shown(home: Path) -> None:
    (home / "client.properties").write_text('sasl.password="x\\\\\n')
    run("add", "prod", "kafka:9093", "-o", "security.protocol=SASL_SSL", "-o",
        "sasl.mechanism=PLAIN", "-o", "sasl.username=me",
        "--client-config", str(home / "client.properties"))  # fmt: skip
    file = home / "ottla" / "contexts.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert listed()[0]["settings"] == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "(hidden)",
    }
    assert '"x\\' not in run("show", "prod").output


def test_a_wrong_setting_or_name_is_refused_before_anything_is_kept() -> None:
    assert "security.protocol=TLS: it is one of" in run(
        "add", "prod", "kafka:9092", "-o", "security.protocol=TLS"
    ).output  # fmt: skip
    assert run("add", "a b", "kafka:9092").exit_code == 2
    assert run("add", "other", "@prod").exit_code == 2
    assert listed() == []


def test_a_damaged_file_is_named(home: Path) -> None:
    (home / "ottla").mkdir()
    (home / "ottla" / "contexts.toml").write_text("[contexts.prod]\nsettings = 1\n")
    result = run("list")
    assert (result.exit_code, "context prod needs target" in result.output) == (2, True)


def test_an_unknown_context_is_refused_with_those_there_are() -> None:
    run("add", "local", "localhost:9092")
    result = run("show", "prod")
    assert result.exit_code == 2
    assert "there is no context prod; known are local" in result.output
