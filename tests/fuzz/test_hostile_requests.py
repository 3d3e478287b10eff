"""Every API in every version, asked the worst that its declaration allows: answered or refused."""

import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.codec.primitives import Output
from ottla.protocol.headers import RequestHeader, encode_response
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.server.dispatching.apis import APIS, APIS_OF, CLUSTER_APIS, EVERY_API, Door
from tests.fuzz.__main__ import NAMES, TARGET_NAMES
from tests.fuzz.targets import seeds, target
from tests.support.group_asking import commit_request, group_asker
from tests.support.hostile_controller import HostileController, controller_versions_of
from tests.support.hostile_member import HostileMember
from tests.support.hostile_quorum import HostileQuorum
from tests.support.hostile_requests import ByteChance, HostileClient, checked_answer, versions_of

REQUESTS_PER_VERSION = 40


@pytest.fixture(scope="module")
def client() -> Iterator[HostileClient]:
    client = HostileClient()
    yield client
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize("api_key", list(APIS), ids=lambda key: APIS[key].key.name)
def test_no_request_of_an_api_reaches_the_catch_all(client: HostileClient, api_key: int) -> None:
    chance = random.Random(f"hostile {api_key}")
    for version in versions_of(api_key):
        for _ in range(REQUESTS_PER_VERSION):
            client.ask(api_key, version, chance)


@pytest.fixture(scope="module")
def member() -> Iterator[HostileMember]:
    member = HostileMember()
    yield member
    member.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "api_key", [*APIS, *CLUSTER_APIS], ids=lambda key: (APIS | CLUSTER_APIS)[key].key.name
)
def test_none_reaches_it_in_a_member_of_a_cluster(member: HostileMember, api_key: int) -> None:
    chance = random.Random(f"hostile member {api_key}")
    for version in versions_of(api_key):
        for _ in range(REQUESTS_PER_VERSION // 2):
            member.ask(api_key, version, chance)


@pytest.fixture(scope="module")
def controller() -> Iterator[HostileController]:
    controller = HostileController()
    yield controller
    controller.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "api_key", list(APIS_OF[Door.CONTROLLER]), ids=lambda key: EVERY_API[key].key.name
)
def test_none_reaches_it_in_a_controller(controller: HostileController, api_key: int) -> None:
    chance = random.Random(f"hostile node {api_key}")
    for version in controller_versions_of(api_key):
        for _ in range(REQUESTS_PER_VERSION // 2):
            controller.ask(api_key, version, chance)


@pytest.mark.slow
def test_nothing_that_nodes_of_a_quorum_ask_or_answer_ends_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for seed in range(30):
        chance, node = random.Random(seed), HostileQuorum()
        for _ in range(20):
            node(chance)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.slow
@pytest.mark.parametrize("api_key", list(APIS), ids=lambda key: APIS[key].key.name)
@settings(max_examples=10, deadline=None)
@given(data=st.binary(max_size=400))
def test_what_a_fuzzer_decides_does_not_reach_it_either(
    client: HostileClient, api_key: int, data: bytes
) -> None:
    chance = ByteChance(data)
    client.ask(api_key, chance.choice(versions_of(api_key)), chance)


@pytest.mark.slow
def test_every_api_can_be_fuzzed_for_longer() -> None:
    alone = {api.key.name.lower() for api in APIS.values()}
    members = {f"member_{api.key.name.lower()}" for api in (APIS | CLUSTER_APIS).values()}
    controllers = {
        f"controller_{api.key.name.lower()}" for api in APIS_OF[Door.CONTROLLER].values()
    }
    assert set(NAMES) - set(TARGET_NAMES) == alone | members | controllers
    for name in (
        "fetch",
        "alter_replica_log_dirs",
        "member_update_metadata",
        "controller_vote",
        "quorum",
    ):
        one = target(name)
        for data in seeds(name):
            one(data)


def test_an_error_longer_than_a_string_may_be_is_cut_short(client: HostileClient) -> None:
    told = DescribeGroupsResponse(
        groups=[DescribedGroup(group_id="g", error_message="ü\udcff" * 20_000)]
    )
    output = Output()
    encode_response(RequestHeader(DescribeGroupsResponse.API_KEY or 0, 6, 1), told, output)
    request = DescribeGroupsRequest(groups=["g"])
    answer = checked_answer(request, 6, output.read_all())
    assert answer.groups[0].error_message.startswith("ü?ü?")
    assert answer.groups[0].error_message.endswith("...")


def test_an_answer_that_cannot_be_written_leaves_nothing_on_the_wire() -> None:
    output = Output()
    output.data += b"what was there"
    told = DescribeGroupsResponse(groups=[DescribedGroup(group_id="x" * 40_000)])
    with pytest.raises(struct.error):
        encode_response(RequestHeader(DescribeGroupsResponse.API_KEY or 0, 0, 1), told, output)
    assert bytes(output.data) == b"what was there"


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63)])
def test_an_offset_may_be_kept_for_as_long_as_a_client_can_say(
    version: int, retention_ms: int
) -> None:
    asker = group_asker()
    request = commit_request(version, asker.broker, 0)
    request.retention_time_ms = retention_ms
    answer = asker.ask(request, version)
    assert answer.topics[0].partitions[0].error_code == 0
