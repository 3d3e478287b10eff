"""The transactional ids of a directory by its files are those that its broker lists."""

from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.errors import UnknownNameError, UserError
from ottla.cli.main import cli
from tests.support.patience import wait_until
from tests.support.read_only import reading

PATIENT = {"transaction.timeout.ms": 600_000}
"""None is aborted on a slow machine while it is looked at."""


def test_transactions_and_producers_are_those_of_the_broker(tmp_path: Path) -> None:
    with (
        ottla.open(tmp_path, {"transaction.state.log.num.partitions": 2}) as log,
        ottla.Admin(log) as admin,
        ottla.Producer(log, settings={"transactional.id": "open", **PATIENT}) as producer,
        ottla.Producer(log, settings={"transactional.id": "done", **PATIENT}) as done,
    ):
        log.create_topic("orders", partitions=2)
        with done.transaction():
            done.send("orders", b"x", partition=0).result()
        with producer.transaction():
            producer.send("orders", b"x", partition=0).result()
            is_done = partial(admin.list_transactions, states=["CompleteCommit"])
            wait_until(is_done)  # until the markers are there
            at_rest = reading(tmp_path)
            assert at_rest.list_transactions() == admin.list_transactions()
            assert [
                one.transactional_id for one in at_rest.list_transactions(states=["Ongoing"])
            ] == ["open"]
            names = ["done", "open"]
            assert at_rest.describe_transactions(names) == admin.describe_transactions(names)
            topics = reading(tmp_path)
            (orders,) = [one for one in topics.describe_topics() if one.name == "orders"]
            assert topics.producers_of(orders) == admin.producers_of(orders)
            assert topics.topic_overrides(["orders"]) == admin.topic_overrides(["orders"])
        (first,) = at_rest.list_transactions(states=["Ongoing"])
        assert at_rest.list_transactions(producer_ids=[first.producer_id]) == [first]
    after = reading(tmp_path).producers_of(orders)
    with ottla.open(tmp_path) as log, ottla.Admin(log) as admin:
        assert after == admin.producers_of(orders)
    with pytest.raises(UserError, match="no state Onging; one is Ongoing"):
        at_rest.list_transactions(states=["Onging"])
    with pytest.raises(UnknownNameError, match="did you mean open"):
        at_rest.describe_transactions(["opne"])


def test_of_damaged_transactions_the_rest_is_shown_and_what_is_lost_is_named(
    tmp_path: Path,
) -> None:
    with ottla.open(tmp_path, {"transaction.state.log.num.partitions": 1}) as log:
        for name in ("first", "last"):
            with (
                ottla.Producer(log, settings={"transactional.id": name}) as producer,
                producer.transaction(),
            ):
                pass
    path = tmp_path / "__transaction_state-0/00000000000000000000.log"
    content = path.read_bytes()
    path.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    with pytest.raises(UserError, match="cannot be read"):
        reading(tmp_path).list_transactions()
    lost: list[str] = []
    known = reading(tmp_path, lost.append).list_transactions()
    assert [one.transactional_id for one in known] == ["first"]
    (line,) = lost
    assert ": first; `ottla transactions list`" in line
    view = reading(tmp_path, lost.append).coordinator_view()
    assert [one.transactional_id for one in view.transactions] == ["first"]
    assert not view.is_complete  # what has no coordinator here may still have one
    for arguments in (["list"], ["describe", "first"]):
        command, *names = arguments
        said = CliRunner().invoke(cli, ["transactions", command, str(tmp_path), *names, "--quiet"])
        assert (said.exit_code, said.stdout) == (1, "first\n")
        assert said.stderr == f"warning: {line}\n"
