"""The lines about Spark of the README and of docs/spark.md, their programs in the session here."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import ottla
from ottla.spark.session import LocalSession
from tests.docs.walking import walk
from tests.integration.cli.support import ENVIRONMENT, QUICK_JAVA, run_ottla

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
OWN_PLACES = re.compile(r"(?<=[\"'])(data|table|checkpoint)/(?=[\"'])")

pytestmark = pytest.mark.usefixtures("local_session")


def run_in(directory: Path, program: str) -> str:
    """What it prints. It finds the running session, whose Java works in another directory."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(OWN_PLACES.sub(rf"{directory}/\1/", program), {})
    return printed.getvalue()


def test_the_load_of_the_readme_runs_as_it_stands_and_what_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in QUICK_JAVA.items():
        monkeypatch.setitem(ENVIRONMENT, name, value)
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders", partitions=3)
        log.append("orders", b"a pot of tea", key=b"table 4")
    (command,) = re.findall(r"^\$ ottla (load (?!.*--engine).*)$", README, re.M)
    loaded = run_ottla(*command.split(), directory=tmp_path)
    assert loaded.returncode == 0, loaded.stderr
    programs = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (program,) = (program for program in programs if "spark_session" in program)
    assert "|count|" in run_in(tmp_path, program)


def test_every_line_of_the_page_about_spark_does_what_it_shows(
    tmp_path: Path, local_session: LocalSession
) -> None:
    pytest.importorskip("deltalake")
    page = (ROOT / "docs" / "spark.md").read_text()
    views = local_session.spark.catalog
    views.dropTempView("orders")  # of another test
    walk(page, tmp_path, lambda program: run_in(tmp_path, program))
    views.dropTempView("orders")
