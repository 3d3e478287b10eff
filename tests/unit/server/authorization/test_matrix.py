"""Every API with each resource that it names: allowed, denied by absence, by rule, and by prefix.

An API that is answered and has no row fails here.
"""

from dataclasses import replace

import pytest

from ottla.base.errors import ApiError
from ottla.codec.primitives import Output
from ottla.metadata.acls import PatternType, Permission
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_request
from ottla.server.authorization.guards import GUARDS
from ottla.server.dispatching.apis import APIS
from tests.unit.server.authorization import token_rows
from tests.unit.server.authorization.judge import Judge
from tests.unit.server.authorization.row import C, Need, Row, acl
from tests.unit.server.authorization.rows import BY_OWNER, OPEN_TO_ALL, ROWS


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


CASES = [
    pytest.param(row, need, id=f"{key.name}-{at}-{need[0].name}-{need[1].name}")
    for key, rows in ROWS.items()
    for at, row in enumerate(rows)
    for need in row.needs
]


@pytest.mark.parametrize(("row", "need"), CASES)
def test_each_api_is_answered_as_the_rules_say(judge: Judge, row: Row, need: Need) -> None:
    judge.prepare()
    others = [acl(one) for one in row.needs if one != need]
    prefixed = acl(need, pattern_type=PatternType.PREFIXED)
    denied = acl(need, Permission.DENY)
    assert judge.is_denied(row, need, others), "denied by absence"
    assert judge.is_denied(row, need, [*others, acl(need), denied]), "denied by rule"
    if need[1] is not C:
        forbidden = acl(need, Permission.DENY, PatternType.PREFIXED)
        assert judge.is_denied(row, need, [*others, acl(need), forbidden]), "denied by prefix"
        assert not judge.is_denied(row, need, [*others, prefixed]), "allowed by prefix"
    # Last, since the first that is allowed may change something.
    assert not judge.is_denied(row, need, [*others, acl(need)]), "allowed"


UNTIL_IDS = {ApiKey.DELETE_TOPICS: 5, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
"""The last version that reads a topic's name where the row has one; later ones have its id."""

WITHOUT_ERROR = {ApiKey.DESCRIBE_LOG_DIRS: 3}
"""Before these versions a refusal has no error, and as in Kafka nothing else either."""

OF_ELEMENTS = {ApiKey.ELECT_LEADERS: 1}
"""Before these versions a refusal is said of each element, of none where all are meant."""

FROM_BROKERS = {ApiKey.ADD_PARTITIONS_TO_TXN: 4}
"""Before these versions the request of brokers, which needs the cluster, is none."""


def versions_of(key: ApiKey, row: Row) -> list[int]:
    """Those in which the request can be asked and its refusal said."""
    oldest, newest = APIS[key].oldest, APIS[key].newest
    if row.version <= UNTIL_IDS.get(key, -1):
        newest = UNTIL_IDS[key]
    oldest = max(oldest, WITHOUT_ERROR.get(key, 0))
    if row is ROWS[key][0]:
        oldest = max(oldest, OF_ELEMENTS.get(key, 0))
    if any(need[1] is C for need in row.needs):
        oldest = max(oldest, FROM_BROKERS.get(key, 0))
    return [version for version in range(oldest, newest + 1) if can_carry(row, version)]


def can_carry(row: Row, version: int) -> bool:
    request = row.request()
    assert request.API_KEY is not None
    try:
        encode_request(RequestHeader(request.API_KEY, version, 1, ""), request, Output())
    except ApiError:
        return False
    return True


@pytest.mark.parametrize("key", ROWS, ids=lambda key: key.name)
def test_a_denial_is_said_in_every_version(judge: Judge, key: ApiKey) -> None:
    judge.prepare()
    for row in ROWS[key]:
        versions = versions_of(key, row)
        assert row.version in versions
        for need in row.needs:
            others = [acl(one) for one in row.needs if one != need]
            for version in versions:
                assert judge.is_denied(replace(row, version=version), need, others), version


def test_every_api_that_is_answered_has_a_row_and_a_guard() -> None:
    assert set(APIS) == set(ROWS) | OPEN_TO_ALL | BY_OWNER
    assert set(GUARDS) == set(APIS)
    by_handler = BY_OWNER | set(token_rows.ROWS)
    assert {key for key, guard in GUARDS.items() if guard is None} == OPEN_TO_ALL | by_handler
