"""docs/queues.md: its examples run, and it names what the class has."""

import re
from pathlib import Path

import pytest

import ottla

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "queues.md").read_text()


def test_the_examples_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    reading, block, strict, why = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(reading, {})
    assert capsys.readouterr().out.splitlines() == ["b'cut' 1", "b'glue' 1", "b'paint' 1"]
    exec(block, {})
    assert capsys.readouterr().out.splitlines() == ["7", "rejected 1"]
    exec(why, {})
    assert capsys.readouterr().out.splitlines() == ["3 AVAILABLE 1 RELEASED"]
    with ottla.open(":memory:") as log:
        exec(strict, names := {})
        ottla.ShareConsumer(log, "workers", settings=names["settings"]).close()


def test_it_names_only_what_there_is() -> None:
    names = re.findall(r"`(accept|release|reject|renew|commit|poll\w*|consume)\(", PAGE)
    assert len(set(names)) == 8
    for name in names:
        assert hasattr(ottla.ShareConsumer, name)
