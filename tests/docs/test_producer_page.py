"""docs/producer.md: its examples run, and it names what the class has."""

import re
from pathlib import Path

import pytest

import ottla
from ottla.config.producer import PARTITIONERS, ProducerConfig
from ottla.config.setting import settings_of

PAGE = (Path(__file__).parents[2] / "docs" / "producer.md").read_text()


def test_the_examples_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, {})
    assert capsys.readouterr().out == "6 records\n"


def test_it_names_only_what_there_is_and_each_partitioner() -> None:
    for name in re.findall(r"`(flush|metrics|\w*_transactions?)\b", PAGE):
        assert hasattr(ottla.Producer, name)
    assert all(f"`{name}`" in PAGE for name in PARTITIONERS)
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)[`=]", PAGE))
    assert named - set(settings_of(ProducerConfig)) <= {
        "sasl.mechanism", "security.protocol", "ssl.ca.location", "sys.exit"
    }  # fmt: skip
