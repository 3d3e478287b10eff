"""The cluster's page, moves between brokers and elections, of one broker and of three."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.ids import Uuid
from ottla.client.administration.cluster_status import ClusterStatus, cluster_status
from ottla.client.administration.quorum import ClusterFeature
from ottla.client.administration.quorum_status import QuorumReplica, QuorumStatus
from ottla.console.views import cluster as cluster_page
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, Browser, console_over, fill
from tests.support.patience import PATIENCE_S
from tests.support.running_cluster import RunningCluster


def test_a_broker_alone_leads_all_its_partitions(broker: LocalBroker, browser: Browser) -> None:
    found = browser.json("/cluster")
    (only,) = found["brokers"]
    assert (only["id"], only["address"], only["is_controller"]) == (1, broker.address, True)
    assert only["leader_count"] == only["preferred_count"] == found["partition_count"]
    assert (found["offline_count"], found["wrong"], found["moves"]) == (0, [], [])
    (directory,) = found["directories"]
    assert directory["size"] == only["size"] > 0
    assert "Every partition has a leader" in browser.text("/cluster")


def test_files_without_a_broker_have_partitions_and_directories_and_no_brokers(
    tmp_path: Path,
) -> None:
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        fill(log)
    with console_over(tmp_path / "data") as browser:
        found = browser.json("/cluster")
        assert (found["brokers"], found["has_broker"]) == ([], False)
        assert found["partition_count"] == sum(
            one["partition_count"] for one in found["directories"]
        )
        page = browser.text("/cluster")
        assert "No broker runs here" in page
        assert "/cluster/reassign" not in page


def test_controllers_are_shown_with_how_far_they_are_and_which_does_not_fetch(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replica(node: int, end_offset: int, *, is_voter: bool = True) -> QuorumReplica:
        return QuorumReplica(
            node=node,
            directory_id=None,
            is_voter=is_voter,
            end_offset=end_offset,
            lag=90 - max(end_offset, 0),
            last_fetch_ms=None,
            last_caught_up_ms=None,
            address=("host", 9093),
        )

    nodes = (replica(1, 90), replica(2, -1), replica(3, 89), replica(4, 88, is_voter=False))
    quorum = QuorumStatus(
        leader=1, epoch=7, high_watermark=89, replicas=nodes, election_reason="it has started"
    )

    def status(admin: ottla.Admin, **how: Any) -> ClusterStatus:
        return replace(cluster_status(admin, **how), quorum=quorum)

    monkeypatch.setattr(cluster_page, "cluster_status", status)
    found = browser.json("/cluster")["quorum"]
    assert [(one["id"], one["role"], one["is_silent"], one["lag"]) for one in found["nodes"]] == [
        (1, "voter", False, 0),
        (2, "voter", True, 90),
        (3, "voter", False, 1),
        (4, "observer", False, 2),
    ]
    page = browser.text("/cluster")
    assert "Node 1 leads epoch 7; 3 of 4 nodes vote." in page
    assert "Node 1 has stood for election because it has started." in page
    assert "voter 2 has not fetched the metadata log since epoch 7 began" in page


def quorum_of(*voters: int, observers: tuple[int, ...] = ()) -> QuorumStatus:
    nodes = tuple(
        QuorumReplica(
            node=node,
            directory_id=Uuid(bytes([node]) * 16),
            is_voter=node in voters,
            end_offset=90,
            lag=0,
            last_fetch_ms=None,
            last_caught_up_ms=None,
            address=None,
        )
        for node in (*voters, *observers)
    )
    return QuorumStatus(leader=1, epoch=7, high_watermark=89, replicas=nodes)


def test_brokers_votes_and_levels_are_changed_after_a_preview(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []

    def noting(name: str) -> Callable[..., None]:
        return lambda _, *given: done.append((name, *given))

    for name in ("unregister_broker", "remove_raft_voter", "add_raft_voter", "update_features"):
        monkeypatch.setattr(ottla.Admin, name, noting(name))
    monkeypatch.setattr(
        ottla.Admin, "describe_quorum", lambda _: quorum_of(1, 2, 3, observers=(4,))
    )
    level = ClusterFeature(level=25, lowest=7, highest=31)
    monkeypatch.setattr(ottla.Admin, "describe_features", lambda _: {"metadata.version": level})
    page = browser.text("/cluster")
    assert ">25 (4.0-IV3)<" in page
    for path, command in (
        ("/cluster/unregister?broker=9", "ottla cluster unregister"),
        ("/cluster/remove-controller?node=3", "ottla cluster remove-controller"),
        ("/cluster/add-controller?node=4&at=host:9093", "--at host:9093 4"),
        ("/cluster/upgrade?feature=metadata.version", "--upgrade metadata.version=31 --yes"),
    ):
        where = path.partition("&")[0]
        assert where in page or "broker=9" in where, "the page leads there"
        shown = browser.get(path)
        assert command in shown.text, path
        assert browser.confirm(path.partition("?")[0], shown).status_code == 200
    assert done == [
        ("unregister_broker", 9),
        ("remove_raft_voter", 3),
        ("add_raft_voter", 4, None, "host", 9093),
        ("update_features", {"metadata.version": 31}),
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("unregister?broker=1", "Broker 1 is up: stop it first"),
        ("unregister?broker=x", "broker is the id of a node"),
        ("remove-controller?node=1", "It is the only voter."),
        ("remove-controller?node=4", "node 4 is no voter of the quorum; voters: 1"),
        ("add-controller?node=4&at=nowhere", "an address is HOST:PORT"),
        ("upgrade?feature=tea", "feature is a feature of the cluster"),
        ("upgrade?feature=metadata.version&level=25", "It is at level 25 already."),
    ],
)
def test_a_change_of_nodes_that_cannot_be_says_why(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, path: str, words: str
) -> None:
    monkeypatch.setattr(ottla.Admin, "describe_quorum", lambda _: quorum_of(1, observers=(4,)))
    level = ClusterFeature(level=25, lowest=7, highest=31)
    monkeypatch.setattr(ottla.Admin, "describe_features", lambda _: {"metadata.version": level})
    page = browser.get(f"/cluster/{path}").text
    assert words in page
    assert 'name="confirm"' not in page


def test_what_need_not_be_done_has_no_button(browser: Browser) -> None:
    for path, words in (
        ("/cluster/elect", "Every partition is led by its preferred broker."),
        ("/cluster/cancel", "No partition is moving."),
        ("/cluster/reassign?topics=orders&to=1", "The partitions are on these brokers already."),
    ):
        page = browser.text(path)
        assert words in page, path
        assert 'name="confirm"' not in page, path


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("topics=nothing", "nothing"),
        ("topics=orders&to=7", "broker 7 is not up"),
        ("topics=orders&to=one", "name brokers by their ids"),
        ("topics=orders&to=1,1", "a broker is named twice"),
        ("topics=orders&replicas=2", "2 replicas need as many brokers"),
        ("topics=orders&replicas=none", "a whole number from 1"),
    ],
)
def test_a_plan_that_cannot_be_names_what_is_wrong(
    browser: Browser, query: str, words: str
) -> None:
    answer = browser.get(f"/cluster/reassign?{query}")
    assert answer.status_code == 400
    assert words in answer.text


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    pytest.importorskip("kazoo.client")
    more = {"zookeeper_session_timeout_ms": "18000"}
    with RunningCluster(tmp_path_factory.mktemp("cluster"), **more) as running:
        yield running


def until(ask: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := ask()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.mark.slow
def test_partitions_move_and_leaders_are_elected_by_the_console(cluster: RunningCluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.create_topic("moved", partitions=3, replication_factor=1)
    with console_over(cluster.bootstrap) as browser:
        brokers = browser.json("/cluster")["brokers"]
        assert [one["id"] for one in brokers] == [1, 2, 3]
        assert sum(one["is_controller"] for one in brokers) == 1
        shown = browser.get("/cluster/reassign?topics=moved&to=1,2&replicas=2")
        assert "ottla cluster reassign" in shown.text
        assert "--to 1,2 --replicas 2 --no-wait --yes moved" in shown.text
        browser.confirm("/cluster/reassign", shown)

        def replicas() -> dict[int, list[int]]:
            (topic,) = admin_topics(cluster, "moved")
            return {one.partition: sorted(one.replicas) for one in topic.partitions}

        until(lambda: set(map(tuple, replicas().values())) == {(1, 2)})
        until(lambda: browser.json("/cluster")["moves"] == [])
        elected = browser.get("/cluster/elect?topics=moved")
        if 'name="confirm"' in elected.text:
            browser.confirm("/cluster/elect", elected)

        def is_led() -> bool:
            (topic,) = admin_topics(cluster, "moved")
            return all(one.leader == one.replicas[0] for one in topic.partitions)

        until(is_led)
        log = [one["title"] for one in browser.json("/audit")["entries"]]
        assert "Move partitions" in log


def admin_topics(cluster: RunningCluster, name: str) -> Any:
    with ottla.Admin(cluster.bootstrap) as admin:
        return admin.describe_topics([name])
