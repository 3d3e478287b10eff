"""The console over three nodes with KRaft: what it shows of the quorum, and what its buttons do."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.addresses import parse_address
from ottla.cli.main import cli
from tests.console.asking import Browser, console_over
from tests.support.grounds import QUORUM
from tests.support.patience import wait_until
from tests.support.running_cluster import RunningBroker, RunningCluster

pytestmark = pytest.mark.slow


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path, grounds=QUORUM) as running:
        yield running


FIGURES_WITHOUT = (
    "the figures are without the partitions that it leads and the groups that it coordinates"
)
SHORT = ("-X", "request.timeout.ms=2000")
"""A command waits as long for a broker that stands still; by default five seconds."""


def quorum(browser: Browser) -> Any:
    return browser.json("/cluster")["quorum"]


def roles(browser: Browser) -> dict[int, str]:
    return {one["id"]: one["role"] for one in quorum(browser)["nodes"]}


def confirmed(browser: Browser, path: str) -> None:
    """Follows a link of the cluster's page, and confirms."""
    shown = browser.get(path)
    assert 'name="confirm"' in shown.text, shown.text
    assert browser.confirm(path.partition("?")[0], shown).status_code == 200, shown.text


def test_the_console_shows_the_quorum_and_changes_it(running: RunningCluster) -> None:
    with ottla.Admin(running.bootstrap) as admin:
        admin.create_topic("orders", partitions=3, replication_factor=3)
    running.wait_in_sync("orders")
    with console_over(running.bootstrap) as browser:
        leader = _shows_who_leads(browser)
        other = min({1, 2, 3} - {leader})
        _raises_a_feature(browser)
        _takes_a_vote_and_gives_it_back(browser, other, running)
        _tells_why_another_leads(browser, leader, running)
        _forgets_a_broker(browser, leader)
        running.brokers[other].pause()
        _names_a_broker_that_does_not_answer(browser, running.brokers[other])
    answering = running.brokers[({1, 2, 3} - {leader, other}).pop()]
    _commands_name_it_too(answering.address, running.brokers[other])


def _shows_who_leads(browser: Browser) -> int:
    found = quorum(browser)
    assert found["is_led"]
    assert found["election_reason"]
    assert found["problems"] == []
    assert roles(browser) == {1: "voter", 2: "voter", 3: "voter"}
    assert {one["is_silent"] for one in found["nodes"]} == {False}
    assert all(one["lag"] < found["committed"] for one in found["nodes"])
    page = browser.text("/cluster")
    assert f"Node {found['leader']} leads epoch {found['epoch']}; 3 of 3 nodes vote." in page
    return int(found["leader"])


def _raises_a_feature(browser: Browser) -> None:
    confirmed(browser, "/cluster/upgrade?feature=kraft.version")

    def level() -> bool:
        features = browser.json("/cluster")["features"]
        return {one["name"]: one["level"] for one in features}["kraft.version"] == 1

    wait_until(level, "kraft.version is not 1")


def _takes_a_vote_and_gives_it_back(browser: Browser, node: int, running: RunningCluster) -> None:
    confirmed(browser, f"/cluster/remove-controller?node={node}")
    wait_until(lambda: roles(browser).get(node) == "observer", "it still votes")
    address = running.controllers[node - 1]
    _refuses_the_address_of_another(browser, node, running)
    confirmed(browser, f"/cluster/add-controller?node={node}&at={address[0]}:{address[1]}")
    wait_until(lambda: roles(browser).get(node) == "voter", "it does not vote")


def _refuses_the_address_of_another(browser: Browser, node: int, running: RunningCluster) -> None:
    mend = f": name the address of node {node}'s own listener for controllers"
    others = {1, 2, 3} - {node}
    with browser.console.place.admin() as admin:
        for place, problem in (
            *((running.controllers[one - 1], f"the voter {one} listens there") for one in others),
            *(
                (("localhost", running.controllers[one - 1][1]), f"node {one} answers there")
                for one in others
            ),
            (parse_address(running.brokers[node].address), "a broker's listener answers there"),
        ):
            with pytest.raises(ottla.UserError, match=f"{problem}.*{mend}"):
                admin.add_raft_voter(node, "CONTROLLER", *place)


def _tells_why_another_leads(browser: Browser, leader: int, running: RunningCluster) -> None:
    epoch = quorum(browser)["epoch"]
    running.brokers[leader].stop()
    found = wait_until(lambda: now if (now := quorum(browser))["is_led"] else None, "nobody leads")
    assert found["leader"] != leader
    assert found["epoch"] > epoch
    assert f"leader {leader} of epoch {epoch} has resigned" in found["election_reason"]
    assert found["election_reason"] in browser.text("/cluster")


def _forgets_a_broker(browser: Browser, broker: int) -> None:
    path = f"/cluster/unregister?broker={broker}"
    wait_until(lambda: 'name="confirm"' in browser.get(path).text, "it is still up")
    confirmed(browser, path)
    with browser.console.place.admin() as admin:
        wait_until(lambda: broker not in admin.describe_cluster().fenced, "it is not forgotten")


def _names_a_broker_that_does_not_answer(browser: Browser, silent: RunningBroker) -> None:
    """Its session has not ended, so that the cluster takes it to be up: no page fails for it."""
    began_s = time.monotonic()
    found = browser.json("/cluster")
    assert time.monotonic() - began_s < 9, "it has waited for a whole request.timeout.ms"
    states = {one["id"]: one["is_silent"] for one in found["brokers"]}
    assert {one for one, is_silent in states.items() if is_silent} == {silent.id}
    (line,) = found["problems"]
    assert f"Broker {silent.id} does not answer at {silent.address}; it leads " in line
    assert line in browser.text("/cluster")
    assert not found["has_controller"], "of three voters one answers"
    named = f"broker {silent.id} at {silent.address}"
    assert f'<p class="problem" role="alert">{named}' in browser.text("/")
    assert "orders" in browser.text("/topics")
    for page, what in (
        ("/transactions", "the transactions that it coordinates are left out"),
        ("/transactions?everywhere=1", "what is open in partitions that it leads is left out"),
        ("/groups", "its groups are left out"),
        ("/queues", "its groups are left out"),
        ("/topics?figures=1", FIGURES_WITHOUT),
        ("/topics-figures?names=orders", FIGURES_WITHOUT),
        ("/topics/orders", FIGURES_WITHOUT),
    ):
        lines = browser.json(page)["lost"]
        assert any(what in one and silent.address in one for one in lines), (page, lines)


def _commands_name_it_too(address: str, silent: RunningBroker) -> None:
    for words, what in (
        (("explain", "retention", address, "orders"), "its directories are left out"),
        (("topics", "move", address), "its directories are left out"),
        (("transactions", "find-hanging", address), "whether a transaction hangs is not known"),
    ):
        shown = CliRunner().invoke(cli, [*words, *SHORT])
        assert shown.exit_code == 1, (words, shown.stderr)
        assert what in shown.stderr, words
        assert f"broker {silent.id} at {silent.address}: timed out" in shown.stderr, words
