"""`ottla groups` and `topics` of a cluster, one of whose brokers was killed a moment ago."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from tests.integration.cli.support import run_ottla
from tests.support.patience import PATIENCE_S
from tests.support.running_cluster import RunningCluster, Silence

pytest.importorskip("kazoo.client")
AdminClient = pytest.importorskip("confluent_kafka.admin").AdminClient
NewTopic = pytest.importorskip("confluent_kafka.admin").NewTopic

pytestmark = pytest.mark.slow

LONG_MS = 20 * 1000 * PATIENCE_S
"""More than all that the test may wait for."""

GROUPS = [f"group-{number}" for number in range(9)]


def test_what_the_other_brokers_know_is_listed_and_described_with_exit_code_1(
    tmp_path: Path,
) -> None:
    """The broker's session outlasts the test: the cluster lists it, and nobody takes over."""
    with RunningCluster(tmp_path, zookeeper_session_timeout_ms=str(LONG_MS)) as cluster:
        first = cluster.brokers[1].address
        with ottla.Admin(cluster.bootstrap) as admin:
            # The topic is the first broker's alone, so that its lag stays known.
            orders = NewTopic("orders", 1, replica_assignment=[[1]])
            clients = AdminClient({"bootstrap.servers": first}, logger=Silence())
            clients.create_topics([orders])["orders"].result(PATIENCE_S)
            cluster.wait_in_sync("orders", 1, partitions=1)
            for group in GROUPS:
                admin.alter_group_offsets(group, {ottla.TopicPartition("orders", 0): 0})
            coordinators = {one.group: one.coordinator for one in admin.list_groups()}
        assert sorted(coordinators) == GROUPS
        gone = max(set(coordinators.values()) - {1})
        cluster.brokers[gone].kill()

        left = [group for group in GROUPS if coordinators[group] != gone]
        named = run_ottla("groups", "list", first, "-q")
        assert (named.returncode, named.stdout.split()) == (1, left), named.stderr
        (warning,) = named.stderr.splitlines()
        assert warning.startswith("warning: a broker does not answer, and its groups are left out")
        assert cluster.brokers[gone].address in warning
        whole = run_ottla("groups", "list", first, "--json")
        lags = {one["group"]: one["lag"] for one in map(json.loads, whole.stdout.splitlines())}
        assert (whole.returncode, lags) == (1, dict.fromkeys(left, 0)), whole.stderr

        lost = next(group for group in GROUPS if coordinators[group] == gone)
        described = CliRunner().invoke(cli, ["groups", "describe", first, left[0], lost, "--json"])
        (found,) = map(json.loads, described.stdout.splitlines())
        assert (described.exit_code, found["group"], found["lag"]) == (1, left[0], 0)
        assert described.stderr.splitlines() == [
            warning,
            f"warning: no broker that answers has a group {lost}",
        ]

        # A broker that stands still would not answer for the whole of request.timeout.ms either.
        shown = run_ottla("topics", "list", first, "--json")
        counts = {
            one["topic"]: one["records"] for one in map(json.loads, shown.stdout.splitlines())
        }
        assert (shown.returncode, counts) == (1, {"orders": 0}), shown.stderr
        (warning,) = shown.stderr.splitlines()
        assert "the partitions that it leads count as empty" in warning
        assert cluster.brokers[gone].address in warning
        shown = run_ottla("topics", "describe", first, "orders")
        assert (shown.returncode, shown.stderr) == (1, warning + "\n")
        assert shown.stdout.startswith("orders: 1 partition, 0 records")
