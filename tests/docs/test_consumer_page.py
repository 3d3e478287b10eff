"""docs/consumer.md: its example runs, and it names what the class has."""

import re
from pathlib import Path

import pytest

import ottla
from ottla.client.consumer.assignors import ASSIGNORS

PAGE = (Path(__file__).parents[2] / "docs" / "consumer.md").read_text()


def test_the_examples_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, skipping = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(line.startswith("orders ") for line in lines)
    exec(skipping, {})
    skipped, read = capsys.readouterr().out.splitlines()
    assert skipped.startswith("skipped bills-0 offset 1: ")
    assert read == "[3, 5]"


def test_it_names_only_what_there_is_and_each_assignor() -> None:
    for name in re.findall(r"`(seek\w*|pause|resume|commit\w*|streams|lag|position)\b", PAGE):
        assert hasattr(ottla.Consumer, name)
    for name in ("fetch", "multifetch", "offsets_before"):
        assert hasattr(ottla.SimpleConsumer, name)
    assert all(f"`{name}`" in PAGE for name in ASSIGNORS)
