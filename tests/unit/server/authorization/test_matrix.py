"""Every API with each resource that it names: allowed, denied by absence, by rule, and by prefix.

An API that is answered and has no row fails here.
"""

import pytest

from ottla.broker.security.acls import PatternType, Permission
from ottla.server.apis import APIS
from ottla.server.authorization.guards import GUARDS
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


def test_every_api_that_is_answered_has_a_row_and_a_guard() -> None:
    assert set(APIS) == set(ROWS) | OPEN_TO_ALL | BY_OWNER
    assert set(GUARDS) == set(APIS)
    by_handler = BY_OWNER | set(token_rows.ROWS)
    assert {key for key, guard in GUARDS.items() if guard is None} == OPEN_TO_ALL | by_handler
