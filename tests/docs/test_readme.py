"""The README's own lines, run as they stand; those of Spark are in tests/spark/test_pages.py."""

import re
from pathlib import Path

import pytest

import ottla
from tests.integration.cli.support import run_ottla, serving

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.slow
def test_the_python_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = [
        "b'a pot of tea' (('waiter', b'Ana'),)",
        "b'a scone'",
        "b'table ",
        "{0: (0, ",
    ]
    for code, line in zip((one for one in PYTHON if "spark" not in one), expected, strict=True):
        exec(code, {})
        assert line in capsys.readouterr().out


def test_the_serve_command_runs_as_it_stands_but_for_the_port(tmp_path: Path) -> None:
    (options,) = re.findall(r"^\$ ottla serve (.*) --listen 127.0.0.1:9092$", README, re.M)
    assert options == "data/"
    with serving(tmp_path / "data") as (address, _):
        assert address.startswith("127.0.0.1:")
    assert (tmp_path / "data" / "meta.properties").exists()


def test_the_records_command_runs_as_it_stands(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders", partitions=3)
        log.append("orders", b"a pot of tea", key=b"table 4", headers=[("waiter", b"Ana")])
    (command,) = re.findall(r"^\$ ottla (records [^|]*orders)$", README, re.M)
    (line,) = run_ottla(*command.split(), directory=tmp_path).stdout.splitlines()
    place = line.partition("\t")[0]
    assert f"\n{place}\t0\t" in README
    assert line.endswith("\ttable 4\ta pot of tea\twaiter=Ana")
