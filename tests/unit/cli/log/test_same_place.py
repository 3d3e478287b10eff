"""A batch that no reader can decode: every command names it at the same byte."""

import re
from pathlib import Path

import pytest

import ottla
from ottla.codec.compression import DEFAULT_LIMIT, Compression
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import log_file_name
from tests.crash.judging import run
from tests.support.brokers import NOW_MS

COMMANDS = [
    ["log", "check", "DIR"],
    ["log", "check", "DIR", "--deep"],
    ["records", "DIR", "--topic", "t"],
    ["consume", "DIR", "t"],
    ["export", "DIR", "t", "-q", "-o", "OUT"],
    ["sql", "DIR", "select count(value) from t"],
    ["load", "DIR", "t", "--into", "TABLE", "--engine", "local"],
    ["log", "dump", "--deep", "DIR"],
    ["log", "repair", "DIR"],
]


@pytest.mark.slow
def test_all_name_the_batch_that_unpacks_to_too_much_at_the_same_byte(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with ottla.open(directory) as log:
        log.create_topic("t")
        log.append("t", b"before")
    too_much = RecordBatchBuilder(1, compression=Compression.ZSTD, leader_epoch=0)
    too_much.append(None, bytes(DEFAULT_LIMIT + 1), NOW_MS)
    after = RecordBatchBuilder(2, leader_epoch=0)
    after.append(None, b"after", NOW_MS)
    path = directory / "t-0" / log_file_name(0)
    position = path.stat().st_size
    with path.open("ab") as file:
        file.write(too_much.build())
        file.write(after.build())
    for name in ("recovery-point", "replication"):
        (directory / f"{name}-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    (directory / ".kafka_cleanshutdown").unlink()
    places = {"DIR": directory, "OUT": tmp_path / "out.jsonl", "TABLE": tmp_path / "table"}
    for command in COMMANDS:
        code, out, err = run(*(str(places.get(word, word)) for word in command))
        named = re.findall(r"at byte (\d+)[:,] [^\n]*decompresses to more than", out + err)
        assert set(named) == {str(position)}, (command, code, out, err)
