"""Whatever optional package is missing, a command says in one line how to install it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ottla
from ottla.base.extras import EXTRAS
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import PATIENCE_S

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


@pytest.mark.slow
@pytest.mark.parametrize("module", COMMANDS)
def test_a_missing_package_is_one_line_that_names_its_extra(
    module: str, places: dict[str, str]
) -> None:
    """In a process of its own: what others have imported of a package would be found here."""
    words = [places.get(word, word) for word in COMMANDS[module].split()]
    hidden = f"import sys; sys.modules[{module!r}] = None; from ottla.cli.main import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", hidden, *words],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1), result.stderr
    assert f"pip install 'ottla[{EXTRAS[module]}]'" in result.stderr


PACKAGES = {"google": "protobuf", "grpc_tools": "grpcio-tools", "jwt": "pyjwt"}


def test_each_extra_has_the_package_that_a_person_is_told_to_install() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for module, extra in EXTRAS.items():
        package = PACKAGES.get(module, module.replace("_", "-"))
        assert any(one.startswith(package) for one in extras[extra]), module
