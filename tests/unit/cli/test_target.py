"""TARGET in every command: an argument, an option, a variable, a context."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.addresses import address_text, parse_address
from ottla.base.errors import UserError
from ottla.cli import default_place
from ottla.cli.main import cli
from ottla.cli.settings_files import given_settings, parse_setting
from ottla.cli.target import HASTE_S, Target, TargetCommand, parse_target, target_argument
from tests.support.ports import free_port


@click.command("show", cls=TargetCommand, examples=("ottla show data/ orders",))
@target_argument()
@click.argument("names", nargs=-1)
def show(target: Target, names: tuple[str, ...]) -> None:
    click.echo(f"{','.join(target.directories)}|{target.addresses}|{dict(target.settings)}|{names}")


@pytest.fixture(autouse=True)
def _no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTTLA_TARGET", "OTTLA_CONTEXT", "OTTLA_CONTEXTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(default_place, "ADDRESS", ("127.0.0.1", free_port()))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(show, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output.strip()


def context(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["context", *arguments])


BROKER = "|(('kafka', 9092),)|{}|"


def test_the_first_argument_is_the_target_where_nothing_else_names_one() -> None:
    assert run("kafka:9092", "orders") == f"{BROKER}('orders',)"
    assert run("data", "orders", "books") == "data|()|{}|('orders', 'books')"
    assert run("a:1,b:2") == "|(('a', 1), ('b', 2))|{}|()"
    assert run("[::1]:9092") == "|(('::1', 9092),)|{}|()"


def test_a_directory_is_a_directory_though_it_looks_like_an_address(tmp_path: Path) -> None:
    (tmp_path / "kafka:9092").mkdir()
    assert run("kafka:9092") == "kafka:9092|()|{}|()"


def test_options_leave_all_arguments_to_be_names() -> None:
    assert run("-b", "kafka:9092", "orders") == f"{BROKER}('orders',)"
    assert run("orders", "--bootstrap", "kafka:9092") == f"{BROKER}('orders',)"
    assert run("-d", "data", "a/b") == "data|()|{}|('a/b',)"


def test_a_variable_names_the_target_unless_the_first_argument_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTTLA_TARGET", "kafka:9092")
    assert run("orders") == f"{BROKER}('orders',)"
    assert run() == f"{BROKER}()"
    assert run("data/", "orders") == "data/|()|{}|('orders',)"
    (tmp_path / "orders").mkdir()
    assert run("orders") == f"{BROKER}('orders',)"
    (tmp_path / "orders" / "meta.properties").write_text("")
    assert run("orders") == "orders|()|{}|()"


def test_contexts_name_targets_with_their_settings() -> None:
    context("add", "prod", "kafka:9092", "-o", "security.protocol=SSL")
    assert run("orders").startswith("|(('kafka', 9092),)|{'security.protocol': 'SSL'}|('orders'")
    assert run("@prod") == run("--context", "prod") == run("--context", "@prod")
    assert run("other:1", "orders") == "|(('other', 1),)|{}|('orders',)"
    assert "PLAINTEXT" in run("@prod", "-X", "security.protocol=PLAINTEXT")


def test_a_context_of_a_directory_is_right_wherever_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context("add", "here", "data")
    monkeypatch.chdir("/")
    assert run("@here") == f"{tmp_path}/data|()|{{}}|()"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("@prod",), "there is no context prod; ottla context add prod HOST:PORT adds it"),
        (("-b", "kafka"), "kafka: an address is HOST:PORT"),
        (("-b", "a:1", "-d", "b"), "exclude each other"),
        (("a:1", "-X", "security"), "-X security: a setting is KEY=VALUE"),
    ],
)
def test_what_names_no_target_is_refused_in_one_line(
    arguments: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(UserError, match=reason.replace("(", r"\(")):
        run(*arguments)


@pytest.mark.parametrize(
    ("option", "name"),
    [("-X", "sasl.password"), ("-X", "sasl.jaas.config"), ("-o", "ssl.key.password")],
)
def test_a_secret_as_an_argument_is_warned_of_for_others_can_read_it(
    option: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse_setting(f"{name}=CANARY", "a=b", option=option) == (name, "CANARY")
    warning = capsys.readouterr().err
    assert warning.startswith(f"warning: {option} {name}=...: ")
    assert "${env:VARIABLE}" in warning
    assert "CANARY" not in warning


def test_a_command_works_with_the_secret_that_it_warns_of() -> None:
    result = CliRunner().invoke(show, ["a:1", "-X", "sasl.password=CANARY"])
    assert "'sasl.password': 'CANARY'" in result.stdout
    assert "warning: -X sasl.password=..." in result.stderr


def test_a_secret_comes_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAS", "pot")
    (tmp_path / "ours").write_text("kettle\n")
    assert "'sasl.password': 'pot'" in run("a:1", "-X", "sasl.password=${env:ANAS}")
    given = given_settings(None, [f"ssl.keystore.password=${{file:{tmp_path}/ours}}"])
    assert given == {"ssl.keystore.password": "kettle"}
    context("add", "prod", "a:1", "-X", "sasl.password=${env:ANAS}")
    assert "'sasl.password': 'pot'" in run("@prod")


def test_a_directory_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match="data: there is no such directory"):
        Target(text="data", directories=("data",)).check_directories()


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize(
    ("variable", "value", "words", "said"),
    [
        ("OTTLA_TARGET", "dta", "", "dta: there is no such directory"),
        ("OTTLA_TARGET", "localhost:1", "", "localhost:1"),
        ("OTTLA_TARGET", "localhost:99999", "", "99999"),
        ("OTTLA_TARGET", "@tset", "", "there is no context tset"),
        ("OTTLA_CONTEXT", "tset", "", "there is no context tset"),
        ("OTTLA_CONTEXT", "gone", "", "dta: there is no such directory"),
        ("", "", "@gone", "dta: there is no such directory"),
        ("", "", "--context gone", "dta: there is no such directory"),
    ],
)
def test_an_error_about_a_target_that_no_argument_names_says_what_does(
    variable: str, value: str, words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context("add", "gone", "dta")
    if variable:
        monkeypatch.setenv(variable, value)
    result = CliRunner().invoke(cli, ["topics", "list", *words.split()])
    (line,) = result.stderr.splitlines()
    assert said in line
    assert (variable or "context gone") in line.removeprefix(f"ottla: {value}")


def test_a_name_that_a_target_does_not_have_is_said_with_the_target_that_no_argument_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
    monkeypatch.setenv("OTTLA_TARGET", "data")
    result = CliRunner().invoke(cli, ["topics", "describe", "order"])
    assert result.stderr == (
        "ottla: there is no topic order; did you mean orders? "
        "(the target is data, of OTTLA_TARGET; for a directory order, write ./order)\n"
    )
    named = CliRunner().invoke(cli, ["topics", "describe", "data/", "order"])
    assert named.stderr == "ottla: there is no topic order; did you mean orders?\n"


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize("words", ["topics create new orders", "consume new orders"])
def test_a_word_that_is_a_name_beside_a_context_could_be_a_directory_and_how_is_said(
    words: str,
) -> None:
    context("add", "prod", "localhost:1")
    result = CliRunner().invoke(cli, [*words.split(), "--timeout", "30s"])
    note = "(the target is localhost:1, of context prod; for a directory new, write ./new)"
    assert note in result.stderr
    named = CliRunner().invoke(cli, ["topics", "describe", "-b", "localhost:1", "new"])
    assert "./new" not in named.stderr


@pytest.mark.parametrize("words", ["topics create {} orders", "produce {} orders"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "kafka1.example.com"])
def test_a_host_without_its_port_makes_no_directory(host: str, words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, words.format(host).split())
    assert result.exit_code == 2
    assert f"{host}: there is no such directory" in result.stderr
    assert f"such as {host}:9092" in result.stderr
    assert not (tmp_path / host).exists()


def test_a_context_that_is_named_like_a_directory_is_recognized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "contexts.toml"
    file.write_text('[contexts.prod]\ntarget = "localhost:9092"\n')
    monkeypatch.setenv("OTTLA_CONTEXTS", str(file))
    with pytest.raises(UserError, match="no such directory; of a context, write @prod"):
        Target(text="prod", directories=("prod",)).check_directories()


@pytest.mark.parametrize(
    "words", [("compact", "localhost:9092", "t"), ("adopt", "localhost:9092"),
              ("status", "localhost:9092"), ("stop", "localhost:9092")],
)  # fmt: skip
def test_a_broker_is_not_taken_for_a_directory(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, words)
    said = "localhost:9092 is a broker's address; this command takes a data directory"
    assert said in result.stderr


def test_an_address_is_not_made_a_directory_to_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["serve", "localhost:9092"])
    assert result.exit_code == 2
    assert "--listen localhost:9092 listens there" in result.stderr
    assert "a directory of that name is ./localhost:9092" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_opens_with_the_example_and_ends_with_what_all_share() -> None:
    lines = run("--help").splitlines()
    assert lines[0] == "$ ottla show data/ orders"
    assert lines.index("Shared options:") > 2


def test_a_directory_on_which_a_broker_runs_is_asked_of_that_broker(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
        log.listen("127.0.0.1:0")
        result = CliRunner().invoke(cli, ["topics", "list", str(tmp_path / "data"), "-q"])
    assert (result.exit_code, result.output) == (0, "orders\n")


@pytest.mark.slow
def test_a_directory_that_another_process_holds_is_refused_with_its_pid(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ottla", "topics", "create", str(tmp_path / "data"), "t"]
    with ottla.open(tmp_path / "data"):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"data is in use by another process, {os.getpid()}; " in done.stderr


def test_a_command_that_reads_makes_no_log_in_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = CliRunner().invoke(cli, ["topics", "list", str(tmp_path)])
    assert result.exit_code == 2
    assert "the directory holds no log" in result.output
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_without_any_target_it_is_the_directory_that_serve_serves_by_default(
    tmp_path: Path,
) -> None:
    made = CliRunner().invoke(cli, ["topics", "create", "orders"])
    assert made.stdout == "created orders\n"
    address = address_text(*default_place.ADDRESS)
    said = f"no target is named: ./ottla-data, nothing answers at {address}\n"
    assert made.stderr == said
    assert (tmp_path / "ottla-data" / "orders-0").is_dir()
    quiet = CliRunner().invoke(cli, ["topics", "list", "-q"])
    assert (quiet.stdout, quiet.stderr) == ("orders\n", "")
    listed = CliRunner().invoke(cli, ["topics", "list", "order"])
    assert "did you mean orders? (the target is ./ottla-data, the default;" in listed.stderr


def test_without_any_target_it_is_a_broker_at_kafkas_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ottla.open(tmp_path / "ottla-data").close()
    with ottla.open(tmp_path / "other") as other:
        other.create_topic("there")
        listening = other.listen("127.0.0.1:0")
        monkeypatch.setattr(default_place, "ADDRESS", parse_address(listening.address))
        listed = CliRunner().invoke(cli, ["topics", "list"])
        assert listed.stderr == f"no target is named: {listening.address}, it answers\n"
        assert "there" in listed.stdout


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ((), "./ottla-data"),
        (("orders",), "./ottla-data"),
        (("localhost",), "localhost"),
        (("data/",), "data/"),
        (("data", "orders"), "data"),
    ],
)
def test_the_default_target_needs_arguments_that_leave_no_room_for_another(
    words: tuple[str, ...], target: str
) -> None:
    said = run(*words)
    assert said.splitlines()[-1].startswith(f"{target}|"), said


def test_commands_wait_little_for_a_new_connection_and_those_that_copy_records_do_not() -> None:
    target = parse_target("localhost:9092")
    assert target.client_settings().setup_timeout_s == HASTE_S
    assert target.patient().client_settings().setup_timeout_s is None
