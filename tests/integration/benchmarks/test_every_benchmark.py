"""Every benchmark runs; what it measures with sizes this small means nothing."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import SUBJECTS, main

SHOWN = {
    "start-up": "ottla serve, ready",
    "append": "share of the bare rate",
    "read": "one batch after the other",
    "records": "checked, 160 in a batch",
    "recovery": "opening after a clean stop",
    "retention": "of one core",
    "compaction": "beside the cleaner",
    "mirror": "mirror over the wire",
    "sending": "sendfile over copied",
    "requests": "one connection, pipelined",
    "throughput": "messages of 10,000 bytes",
    "connections": "idle connections",
    "console": "all on a page",
    "console-tail": "1,000 records/s",
    "dispatch": "fetch, 1 MB",
    "tiers": "memory of a segment",
    "tier-copies": "p99 with over without",
    "tls": "beside them, over alone",
    "authorization": "with over without",
    "fairness": "DESCRIBE_GROUPS of empty names",
    "partitions": "A broker of 6 partitions",
    "stretches": "a broker alone, asked for much in few bytes",
    "growth": "waiting fetches",
    "consumers": "ottla, consume",
    "in-and-out": "in the last tenth",
    "quorum": "quorum over ZooKeeper",
    "shares": "Share groups: processor time of one core",
    "groups": "consumers in 2 groups",
    "producers": "append_many, a list",
    "transactions": "committed/s",
    "idempotence": "what idempotence costs",
    "cluster": "A controller that finds 6 partitions",
    "spark": "offsets settled and tasks cut",
    "load": "of a load of a tenth as many rows",
    "queries": "keys: the first over the second",
    "merges": "a load of the latest rows",
    "decoding": "JSON with a map",
    "small-loads": "the ratio of the means, with checkpoints",
    "tables": "files read for one offset",
    "sink": "ottla's sink, exactly once",
    "latency": "Produce to a waiting consumer",
}


WITH_JAVA = ("spark", "load", "sink", "cluster")


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject",
    [pytest.param(one, marks=[pytest.mark.long] * (one in WITH_JAVA)) for one in SUBJECTS],
)
def test_a_benchmark_prints_its_tables(subject: str, tmp_path: Path) -> None:
    arguments = [subject, "--tiny", "--no-peers", "--directory", str(tmp_path)]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert SHOWN[subject] in result.output
    assert list(tmp_path.iterdir()) == [], "a benchmark left something behind"


@pytest.mark.slow
def test_tables_can_be_put_into_a_document(tmp_path: Path) -> None:
    arguments = ["recovery", "--tiny", "--markdown", "--directory", str(tmp_path)]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert "| measured" in result.output


def test_an_unknown_subject_is_refused() -> None:
    result = CliRunner().invoke(main, ["speed"])
    assert result.exit_code == 2
    assert "'speed' is not one of" in result.output
