"""Names of our clients: those on which confluent-kafka and kafka-python agree, in both styles."""

import inspect
from typing import Any

import pytest

import ottla
import ottla.aio

OF_THREADS = {"streams"}
"""An event loop has no use for a consumer in each of several threads."""

WITHOUT_WAITING = {"address", "unknown_topic"}
"""Of an admin client, whose other methods are coroutines of one that is opened when it is asked."""


AGREED: dict[Any, str] = {
    ottla.Producer: """
        abort_transaction begin_transaction close commit_transaction flush init_transactions
        send_offsets_to_transaction
    """,
    ottla.Consumer: """
        assign assignment close commit committed offsets_for_times pause poll position resume seek
        subscribe unsubscribe
    """,
    ottla.Admin: """
        alter_configs alter_user_scram_credentials create_acls create_partitions create_topics
        delete_acls delete_records delete_topics describe_acls describe_cluster describe_configs
        describe_topics describe_user_scram_credentials elect_leaders list_groups list_topics
    """,
}
"""What both have: confluent-kafka 2.16, and kafka-python 3.0."""


def methods(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", AGREED)
def test_what_two_clients_call_the_same_has_that_name(kind: Any) -> None:
    assert not set(AGREED[kind].split()) - methods(kind)


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_both_styles_have_the_same_names_and_arguments(name: str) -> None:
    ours, awaited = getattr(ottla, name), getattr(ottla.aio, name)
    wanted = methods(ours) - OF_THREADS - WITHOUT_WAITING
    assert not wanted - methods(awaited)
    for one in wanted:
        arguments = [
            list(inspect.signature(getattr(kind, one)).parameters) for kind in (ours, awaited)
        ]
        assert arguments[0] == arguments[1], one
