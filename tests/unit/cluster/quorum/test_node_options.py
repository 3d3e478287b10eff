"""What the settings of a node mean for its part in the quorum."""

import pytest

from ottla.base.errors import RefusalError
from ottla.cluster.place import Place
from ottla.cluster.quorum.node_options import (
    Identity,
    quorum_options,
    refuse_log_elsewhere,
    spoken_at,
)
from ottla.config.broker import broker_config
from ottla.metadata.brokers import Endpoint
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.inter_broker_requests import sent_version
from tests.support.brokers import disk
from tests.support.quorum_logs import QuorumDirectory, batch_of, open_only


def _nobody(*_: object) -> None:
    raise AssertionError("nobody is asked")


PLACE = Place(
    lock=None,  # type: ignore[arg-type]
    wake=_nobody,
    connect=_nobody,  # type: ignore[arg-type]
    listener="PLAINTEXT",
    control_connect=_nobody,  # type: ignore[arg-type]
    control_listener="CONTROLLER",
    endpoints=(),
    controller_endpoints=(
        Endpoint(listener="CONTROLLER", host="h", port=9093, security_protocol="PLAINTEXT"),
    ),
)


@pytest.mark.parametrize(
    "name",
    [
        "election.timeout.ms",
        "fetch.timeout.ms",
        "election.backoff.max.ms",
        "append.linger.ms",
        "request.timeout.ms",
        "retry.backoff.ms",
        "fetch.max.bytes",
        "fetch.snapshot.max.bytes",
    ],
)
def test_each_setting_of_the_quorum_is_taken_for_what_it_names(name: str) -> None:
    config = broker_config(
        {
            "process.roles": "controller",
            "node.id": "7",
            "listeners": "CONTROLLER://h:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "7@h:9093",
            f"controller.quorum.{name}": "4711",
        }
    )
    options = quorum_options(config, Identity(7, "a-cluster", "/d"), None, PLACE)
    numbers = {one: getattr(options, one) for one in options.__dataclass_fields__}
    assert [one for one, value in numbers.items() if value == 4711] == [name.replace(".", "_")]


@pytest.mark.parametrize(
    ("level", "fetch", "list_offsets"),
    [(0, 13, 7), (7, 13, 7), (9, 14, 8), (10, 15, 8), (18, 15, 8), (19, 16, 8), (21, 17, 9),
     (24, 17, 9), (25, 17, 10), (26, 17, 10), (27, 18, 10), (28, 18, 10), (29, 18, 11),
     (33, 18, 11), (34, 18, 11)],
)  # fmt: skip
def test_brokers_ask_each_other_in_the_versions_of_the_clusters_level(
    level: int, fetch: int, list_offsets: int
) -> None:
    """As Kafka's `MetadataVersion.fetchRequestVersion` and `listOffsetRequestVersion`."""
    version = spoken_at(level)
    assert sent_version(ApiKey.FETCH, version) == fetch
    assert sent_version(ApiKey.LIST_OFFSETS, version) == list_offsets
    assert sent_version(ApiKey.OFFSET_FOR_LEADER_EPOCH, version) == 4


def test_a_controller_does_not_begin_a_log_beside_the_one_that_it_has() -> None:
    files = disk("/d", "/e")
    used = QuorumDirectory(files)
    used.log.append(batch_of(0, 1))
    used.close()
    both = [open_only(files, path) for path in ("/d", "/e")]
    refuse_log_elsewhere("/d", both, files)
    refuse_log_elsewhere("/e", both[1:], files)
    with pytest.raises(RefusalError, match=r"/e has no metadata log, and /d has .*log\.dir=/d$"):
        refuse_log_elsewhere("/e", both, files)
    for one in both:
        one.close()
