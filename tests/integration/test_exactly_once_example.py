"""What `examples.exactly_once` says where it cannot begin."""

from pathlib import Path

import pytest
from examples import exactly_once

import ottla


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("log", "there is no topic payments; there is orders\ncreate it first: ottla topics"),
        ("none", "there is no directory none; name a data directory"),
    ],
)
def test_what_is_missing_is_one_line_with_the_remedy(
    target: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ottla.open("log") as log:
        log.create_topic("orders")
    monkeypatch.setattr("sys.argv", ["exactly_once", target, "balances.db"])
    with pytest.raises(SystemExit) as ended:
        exactly_once.main()
    assert str(ended.value).startswith(words)
