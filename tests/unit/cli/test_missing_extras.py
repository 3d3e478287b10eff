"""Whatever optional package is missing, a command says in one line how to install it."""

import sys
import tomllib
from pathlib import Path

import pyarrow  # noqa: F401 - looks for numpy once, when it is imported: before any test hides it
import pytest
from click.testing import CliRunner

import ottla
from ottla.base.extras import EXTRAS
from ottla.cli.main import cli

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"

COMMANDS = {
    "duckdb": "sql LOG SELECT",
    "avro": "serve -d LOG --listen 127.0.0.1:0 --schema-registry 127.0.0.1:0",
    "fastavro": "load LOG --topic t --into TABLE --decode avro --schema SCHEMA",
    "deltalake": "table files TABLE",
    "jinja2": "console LOG --listen 127.0.0.1:0",
    "kazoo": "adopt LOG --zookeeper 127.0.0.1:1",
    "numpy": "load LOG --topic t --into TABLE",
    "prometheus_client": "serve -d LOG --metrics 127.0.0.1:0",
    "pyarrow": "table read TABLE",
    "pyspark": "load LOG --topic t --into TABLE",
    "starlette": "console LOG --listen 127.0.0.1:0",
    "uvicorn": "console LOG --listen 127.0.0.1:0",
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("t")
        log.append("t", b"v")
    (tmp_path / "s.avsc").write_text('"string"')
    return {
        "LOG": str(tmp_path / "log"),
        "TABLE": str(tmp_path / "table"),
        "SELECT": "select * from t",
        "SCHEMA": str(tmp_path / "s.avsc"),
    }


@pytest.mark.parametrize("module", COMMANDS)
def test_a_missing_package_is_one_line_that_names_its_extra(
    module: str, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [one for one in sys.modules if one == module or one.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    words = [places.get(word, word) for word in COMMANDS[module].split()]
    result = CliRunner().invoke(cli, words)
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1), result.output
    assert f"pip install 'ottla[{EXTRAS[module]}]'" in result.output


def test_each_extra_has_the_package_that_a_person_is_told_to_install() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for module, extra in EXTRAS.items():
        package = {"jwt": "pyjwt"}.get(module, module.replace("_", "-"))
        assert any(one.startswith(package) for one in extras[extra]), module
