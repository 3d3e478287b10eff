"""Whatever optional package is missing, a command says in one line how to install it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.extras import EXTRAS, install_command
from ottla.cli.main import cli
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import PATIENCE_S

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"

SERVE = "serve -d LOG --listen 127.0.0.1:0"
OF_ARROW = (
    "export LOG t -o OUT.parquet",
    "export LOG t -o OUT.csv",
    "export LOG t -o OUT.arrow",
    "export LOG t -o OUT.duckdb",
    "sql LOG SELECT",
    "load LOG --topic t --into TABLE --engine local",
    "audit LOG t --table LOADED",
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "avro": (f"{SERVE} --schema-registry 127.0.0.1:0",),
    "cryptography": (
        f"{SERVE} -o sasl.enabled.mechanisms=OAUTHBEARER -o listener.security.protocol.map="
        "PLAINTEXT:SASL_PLAINTEXT",
    ),
    "deltalake": (
        "load LOG --topic t --into TABLE",
        "load LOG --topic t --into TABLE --engine local",
        "load LOG --topic t --into s3://bucket/table --engine local",
        f"{SERVE} --table t=TABLE",
        "audit LOG t --table LOADED",
        *(
            f"table {one} LOADED"
            for one in ("files", "read", "hours", "history", "optimize", "vacuum")
        ),
    ),
    "duckdb": ("sql LOG SELECT", "export LOG t -o OUT.duckdb", "import LOG t BASE.duckdb"),
    "fastavro": (
        "load LOG --topic t --into TABLE --decode avro --schema SCHEMA",
        "consume LOG t --value avro --schema SCHEMA",
        "records LOG t --value avro --schema SCHEMA",
        "produce LOG t --value avro --schema SCHEMA",
    ),
    "google": ("load LOG --topic t --into TABLE --engine local --decode protobuf --schema PROTO",),
    "grpc_tools": (
        "load LOG --topic t --into TABLE --engine local --decode protobuf --schema PROTO",
    ),
    "jinja2": ("console LOG --listen 127.0.0.1:0", f"{SERVE} --console 127.0.0.1:0"),
    "kazoo": (
        "adopt LOG --zookeeper 127.0.0.1:1",
        f"{SERVE} -o zookeeper.connect=127.0.0.1:1",
        "users set zookeeper://127.0.0.1:1/x ana --password-file PASSWORD",
    ),
    "numpy": OF_ARROW,
    "prometheus_client": (f"{SERVE} --metrics 127.0.0.1:0",),
    "pyarrow": (
        *OF_ARROW,
        "table read LOADED",
        "produce LOG t --parquet LINES",
        "import LOG t OUT.parquet",
    ),
    "pyiceberg": ("load LOG --topic t --into iceberg://catalog/shop.t --engine local",),
    "pyspark": ("load LOG --topic t --into TABLE", "table optimize LOADED --engine spark"),
    "scramp": (f"{SERVE} -o listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",),
    "starlette": ("console LOG --listen 127.0.0.1:0", f"{SERVE} --console 127.0.0.1:0"),
    "uvicorn": ("console LOG --listen 127.0.0.1:0", f"{SERVE} --console 127.0.0.1:0"),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("places")
    with ottla.open(folder / "log") as log:
        log.create_topic("t")
        log.append("t", b"v")
    for name, text in (
        ("s.avsc", '"string"'),
        ("s.proto", 'syntax = "proto3"; message R { int64 a = 1; }'),
        ("lines", "tea"),
        ("password", "pot"),
        ("out.parquet", "none"),
        ("base.duckdb", "none"),
    ):
        (folder / name).write_text(text)
    names = ["log", "table", "loaded", "lines", "password", "out", "base"]
    load = ["load", folder / "log", "t", "--into", folder / "loaded", "--engine", "local"]
    assert CliRunner().invoke(cli, list(map(str, load))).exit_code == 0
    return {name.upper(): str(folder / name) for name in names} | {
        "SELECT": "select * from t",
        "SCHEMA": str(folder / "s.avsc"),
        "PROTO": str(folder / "s.proto"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("module", COMMANDS)
def test_a_missing_package_is_one_line_that_names_its_extra(
    module: str, places: dict[str, str]
) -> None:
    """In a process of its own: what others have imported of a package would be found here."""
    lines = [[_filled(word, places) for word in one.split()] for one in COMMANDS[module]]
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.cli.extras_missing", module],
        input="".join(json.dumps(one) + "\n" for one in lines),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        cwd=PYPROJECT.parent,
        timeout=PATIENCE_S,
        check=False,
    )
    answers = [json.loads(one) for one in done.stdout.splitlines() if one.startswith("[")]
    assert len(answers) == len(lines), done.stderr
    for line, (exit_code, _, said) in zip(COMMANDS[module], answers, strict=True):
        assert (exit_code, len(said.splitlines())) == (2, 1), (line, said)
        assert install_command(EXTRAS[module]) in said, line


def _filled(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


PACKAGES = {
    "google": "protobuf",
    "grpc_tools": "grpcio-tools",
    "jwt": "pyjwt",
    "puresasl": "pure-sasl",
}


def test_spark_comes_with_what_its_source_reads_a_tier_in_an_object_store_with() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    left, found = ["ottla[spark]"], set()
    while left:
        package, _, more = left.pop().partition("[")
        found.add(package.partition(">")[0])
        for name in more.rstrip("]").split(",") if package == "ottla" else ():
            left += extras[name]
    assert "obstore" in found


def test_each_extra_has_the_package_that_a_person_is_told_to_install() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for module, extra in EXTRAS.items():
        package = PACKAGES.get(module, module.replace("_", "-"))
        assert any(one.startswith(package) for one in extras[extra]), module
