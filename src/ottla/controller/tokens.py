"""Delegation tokens in ZooKeeper; a notice of a change makes all brokers read them again.

Kafka's counterparts: `DelegationTokenManagerZk`, `KafkaZkClient.setOrCreateDelegationToken`.
"""

from collections.abc import Iterable, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.controller.notices import NoticeFolder
from ottla.controller.operations import (
    Batch,
    Children,
    Create,
    Delete,
    Get,
    Outcome,
    Set,
    Steps,
    folders_of,
)
from ottla.metadata.tokens import DelegationToken
from ottla.zookeeper import paths
from ottla.zookeeper.access import decode_token, encode_token
from ottla.zookeeper.nodes import NodeError

FoundTokens = Mapping[str, DelegationToken | None]
"""Tokens by id; `None` if a token is gone or its node is not as Kafka writes it."""


def read_tokens(ids: Iterable[str]) -> Steps[FoundTokens]:
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    results = yield Batch(operations=tuple(Get(paths.token_path(one)) for one in wanted))
    found: dict[str, DelegationToken | None] = {}
    for token_id, result in zip(wanted, results, strict=True):
        try:
            found[token_id] = decode_token(token_id, result.content) if result.is_done else None
        except NodeError:
            found[token_id] = None
    return found


def read_all_tokens() -> Steps[FoundTokens]:
    (folder,) = yield Batch(operations=(Children(paths.DELEGATION_TOKENS),))
    return (yield from read_tokens(folder.children))


def create_token(token: DelegationToken) -> Steps[FoundTokens | ApiError]:
    path = paths.token_path(token.token_id)
    create = Create(path, encode_token(token))
    while True:
        (written,) = yield Batch(operations=(create,))
        if written.outcome is not Outcome.NO_NODE:
            # If the node exists, it was created before a lost connection: token ids are unique.
            yield Batch(operations=(_notice(token.token_id),))
            return {token.token_id: token}
        yield Batch(operations=folders_of(path))


def change_token(token: DelegationToken) -> Steps[FoundTokens | ApiError]:
    """Writes a changed token; the last writer wins."""
    (written,) = yield Batch(
        operations=(Set(paths.token_path(token.token_id), encode_token(token)),)
    )
    if not written.is_done:
        return ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    yield Batch(operations=(_notice(token.token_id),))
    return {token.token_id: token}


def drop_token(token_id: str) -> Steps[FoundTokens | ApiError]:
    yield Batch(operations=(Delete(paths.token_path(token_id)), _notice(token_id)))
    return {token_id: None}


def drop_expired_tokens(now_ms: int) -> Steps[int]:
    """Deletes expired tokens, which are rejected anyway; returns their number."""
    known = yield from read_all_tokens()
    expired = [
        token_id for token_id, one in known.items() if one is not None and one.expires_ms < now_ms
    ]
    for token_id in expired:
        yield from drop_token(token_id)
    return len(expired)


def _notice(token_id: str) -> Create:
    return Create(paths.DELEGATION_TOKEN_CHANGE_PREFIX, token_id.encode(), is_sequential=True)


def token_notices() -> NoticeFolder[str, FoundTokens]:
    return NoticeFolder(
        paths.DELEGATION_TOKEN_CHANGES,
        lambda _, content: (content or b"").decode(errors="replace"),
        read_tokens,
    )
