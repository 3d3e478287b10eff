"""What commands say of groups and transactions that a broker keeps in partitions it cannot serve:
they may exist, and nothing may be decided as if they did not.
"""

import shutil
from collections.abc import Iterator

import pytest

import ottla
from tests.unit.cli.administered import Administered, administered

FEW = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
LOST = "a broker does not answer, and"
NAMED = "no broker leads"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administered]:
    """It has lost the partitions of the group `billing` and of the transactional id `open`."""
    directory = tmp_path_factory.mktemp("lost")
    with administered(directory, is_served=False) as found:
        path = directory / "d"
        with (
            ottla.open(path, FEW) as log,
            ottla.Producer(log, settings={"transactional.id": "open"}) as producer,
        ):
            producer.begin_transaction()
            producer.send("orders", b"x", partition=1).result()
            shutil.copytree(path, directory / "open")
        path = directory / "open"
        for topic in ("__consumer_offsets", "__transaction_state"):
            shutil.rmtree(path / f"{topic}-0")
        with ottla.open(path, FEW) as log:
            found.target = log.listen("127.0.0.1:0").address
            yield found


@pytest.mark.parametrize("words", [("list",), ("describe", "b*")])
def test_no_groups_is_not_said_while_some_are_not_served(
    broker: Administered, words: tuple[str, ...]
) -> None:
    code, text = broker.end("groups", words[0], "TARGET", *words[1:])
    assert code == 1
    assert f"{LOST} its groups are left out: {NAMED} __consumer_offsets-0" in text


def test_a_group_that_is_not_served_is_not_denied(broker: Administered) -> None:
    code, text = broker.end("groups", "describe", "TARGET", "billing")
    assert code == 1
    assert "there is no group" not in text
    reset = ("groups", "reset", "TARGET", "billing", "--to", "earliest", "--yes")
    code, text = broker.end(*reset)
    assert code == 2
    assert text.splitlines()[-1] == f"ottla: {NAMED} __consumer_offsets-0"
    with ottla.Admin(broker.target) as admin, pytest.raises(ottla.UnreachableError, match=NAMED):
        admin.describe_groups(["billing"])


def test_transactional_ids_that_are_not_served_are_said_to_be_left_out(
    broker: Administered,
) -> None:
    code, text = broker.end("transactions", "list", "TARGET")
    assert code == 1
    assert f"{LOST} its transactional ids are left out: {NAMED} __transaction_state-0" in text


def test_no_transaction_is_taken_for_hanging_while_its_coordinator_may_know_it(
    broker: Administered,
) -> None:
    code, text = broker.end("transactions", "find-hanging", "TARGET", "--topic", "orders")
    assert code == 1
    assert "whether a transaction hangs is not known" in text
    assert f"{NAMED} __transaction_state-0" in text
    with ottla.Admin(broker.target) as admin:
        assert not admin.coordinator_view().is_complete
