"""The values of an image as records, and back: brokers, credentials, access rules and tokens."""

from collections.abc import Iterator, Mapping

from ottla.base.ids import Uuid
from ottla.base.principal import parse_principal
from ottla.base.scram import CODES_OF_MECHANISMS, MECHANISM_CODES, ScramCredential
from ottla.codec.schema import Message
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    known,
)
from ottla.metadata.brokers import BrokerRegistration, Endpoint, listeners_of, protocol_of
from ottla.metadata.records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    EndPoint,
    Feature,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.metadata.tokens import DelegationToken


def broker_of(record: RegisterBrokerRecord) -> BrokerRegistration:
    return BrokerRegistration(
        endpoints=tuple(
            Endpoint(
                listener=one.name,
                host=one.host,
                port=one.port,
                security_protocol=protocol_of(one.security_protocol),
            )
            for one in record.end_points
        ),
        rack=record.rack,
        features={
            one.name: {
                "min_version": one.min_supported_version,
                "max_version": one.max_supported_version,
            }
            for one in record.features
        },
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        directories=tuple(record.log_dirs),
        cordoned=tuple(record.cordoned_log_dirs or ()),
        is_fenced=record.fenced,
        is_shutting_down=record.in_controlled_shutdown,
        is_migrating=record.is_migrating_zk_broker,
    )


def broker_record(broker_id: int, broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        is_migrating_zk_broker=broker.is_migrating,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=listeners_of(EndPoint, broker.endpoints),
        features=feature_ranges(broker.features),
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_shutting_down,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned) or None,
    )


def feature_ranges(features: Mapping[str, Mapping[str, int]]) -> list[Feature]:
    """The levels that a node supports, as its record has them."""
    return [
        Feature(
            name=name,
            min_supported_version=levels["min_version"],
            max_supported_version=levels["max_version"],
        )
        for name, levels in features.items()
    ]


def mechanism_of(code: int) -> str:
    """The name of a SCRAM mechanism; one of a later Kafka is its number."""
    return MECHANISM_CODES.get(code, str(code))


def code_of(mechanism: str) -> int:
    """The inverse."""
    return CODES_OF_MECHANISMS.get(mechanism) or int(mechanism)


def credential_of(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(
        salt=bytes(record.salt),
        stored_key=bytes(record.stored_key),
        server_key=bytes(record.server_key),
        iterations=record.iterations,
    )


def credential_record(
    user: str, mechanism: str, credential: ScramCredential
) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=user,
        mechanism=code_of(mechanism),
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def credential_changes(
    altered: Mapping[tuple[str, str], ScramCredential | None],
) -> Iterator[tuple[Message, int]]:
    """`None` removes a credential."""
    for (user, mechanism), one in altered.items():
        if one is None:
            yield RemoveUserScramCredentialRecord(name=user, mechanism=code_of(mechanism)), 0
        else:
            yield credential_record(user, mechanism, one), 0


def acl_of(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        ResourcePattern(
            known(ResourceType, record.resource_type),
            known(PatternType, record.pattern_type),
            record.resource_name,
        ),
        Entry(
            record.principal,
            record.host,
            known(Operation, record.operation),
            known(Permission, record.permission_type),
        ),
    )


def acl_record(record_id: Uuid, acl: Acl) -> AccessControlEntryRecord:
    pattern, entry = acl
    return AccessControlEntryRecord(
        id=record_id,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def acl_removal(record_id: Uuid) -> RemoveAccessControlEntryRecord:
    return RemoveAccessControlEntryRecord(id=record_id)


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    owner = parse_principal(record.owner)
    return DelegationToken(
        token_id=record.token_id,
        owner=owner,
        requester=parse_principal(record.requester) if record.requester else owner,
        renewers=tuple(map(parse_principal, record.renewers)),
        issued_ms=record.issue_timestamp,
        expires_ms=record.expiration_timestamp,
        max_ms=record.max_timestamp,
    )


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=list(map(str, token.renewers)),
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
        token_id=token.token_id,
    )


def token_changes(altered: Mapping[str, DelegationToken | None]) -> Iterator[tuple[Message, int]]:
    """`None` removes a token."""
    for token_id, one in altered.items():
        if one is None:
            yield RemoveDelegationTokenRecord(token_id=token_id), 0
        else:
            yield token_record(one), 0
