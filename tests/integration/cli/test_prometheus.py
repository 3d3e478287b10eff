"""A real Prometheus reads the metrics of a broker at work, and answers what the dashboard asks."""

import json
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from docs import metrics
from ottla.base.clock import SystemClock, read_clock
from ottla.cli.serve.metrics.serving import ServedMetrics
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.network.listener import Server
from tests.support.brokers import batch
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.serving import WireClient, open_broker, serving

pytest.importorskip("prometheus_client")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="needs Prometheus: apt-get install prometheus"
    ),
]
SMALL_SEGMENTS = {"segment.bytes": "1024", "retention.bytes": "1024", "retention.ms": "-1"}


@pytest.fixture
def metrics_port(tmp_path: Path) -> Iterator[int]:
    """The metrics of a broker that has done a bit of everything."""
    broker = open_broker(tmp_path / "data", group_initial_rebalance_delay_ms="0")
    broker.admin.create_topic(NewTopic(name="orders", partition_count=2, overrides=SMALL_SEGMENTS))
    broker.admin.create_topic(NewTopic(name="state", overrides={"cleanup.policy": "compact"}))
    served = ServedMetrics(("127.0.0.1", 0), SystemClock(), str)
    with serving(broker) as server:
        served.serve(broker, server)
        _use(server)
        with server.lock:
            while broker.log_jobs.retention.run_slice(read_clock(SystemClock())):
                pass
        yield served.port
        served.close()


def _use(server: Server) -> None:
    with WireClient(server.address) as client:
        for topic in ("orders",) * 20 + ("nothing", "state"):
            data = PartitionProduceData(index=0, records=bytes(batch(b"x" * 200)))
            topics = [TopicProduceData(name=topic, partition_data=[data])]
            client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
        wanted = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1000)
        fetched = [FetchTopic(topic="orders", partitions=[wanted])]
        client.ask(FetchRequest(max_wait_ms=5, min_bytes=1, max_bytes=1000, topics=fetched), 11)
        committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
        offsets = [OffsetCommitRequestTopic(name="orders", partitions=[committed])]
        client.ask(OffsetCommitRequest(group_id="lagging", topics=offsets), 7)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        client.ask(
            JoinGroupRequest(
                group_id="members",
                session_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=protocols,
            ),
            0,
        )


@pytest.fixture
def prometheus(tmp_path: Path, metrics_port: int) -> Iterator[str]:
    """The address of a Prometheus that reads them."""
    config = {
        "global": {"scrape_interval": "500ms"},
        "scrape_configs": [
            {
                "job_name": "ottla",
                "static_configs": [{"targets": [f"127.0.0.1:{metrics_port}"]}],
            }
        ],
    }
    path = tmp_path / "prometheus.yml"
    path.write_text(json.dumps(config))
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={path}", f"--web.listen-address={address}"]
    command += [f"--storage.tsdb.path={tmp_path / 'tsdb'}", "--log.level=error"]
    process = subprocess.Popen(command)
    try:
        yield address
    finally:
        process.terminate()
        process.wait()


def test_every_query_of_the_dashboard_has_an_answer(prometheus: str) -> None:
    dashboard = json.loads(metrics.DASHBOARD.read_text())
    queries = [one["expr"] for panel in dashboard["panels"] for one in panel["targets"]]
    assert len(queries) > 30
    unanswered = set(queries)
    until_s = time.monotonic() + PATIENCE_S
    while unanswered and time.monotonic() < until_s:
        unanswered = {one for one in unanswered if not _answers(prometheus, one)}
        threading.Event().wait(0.2)
    assert not unanswered


def _answers(prometheus: str, query: str) -> list[Any]:
    text = urllib.parse.urlencode({"query": query.replace("$__rate_interval", "1m")})
    try:
        with urllib.request.urlopen(f"http://{prometheus}/api/v1/query?{text}") as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return []  # It listens, and is not ready yet.
    except OSError:  # It has not started yet.
        return []
    return found


def test_prometheus_own_judge_of_metrics_has_no_complaint(metrics_port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
        page = answer.read()
    judged = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)
    assert (judged.returncode, judged.stderr) == (0, b"")
