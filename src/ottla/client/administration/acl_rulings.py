"""May a principal do something? The authorizer of brokers decides, with the rules of a cluster.

Only the rules whose pattern matches the resource are asked for, so that a cluster may have many.
"""

from collections.abc import Iterable, Iterator, Mapping

from ottla.base.addresses import canonical_host
from ottla.base.errors import UnknownNameError
from ottla.base.principal import parse_principal
from ottla.base.resource_kinds import ResourceKind
from ottla.base.values import dataclass
from ottla.broker.security.authorizer import Authorizer, Reason, Ruling
from ottla.client.administration.acl_words import (
    RESOURCES,
    acl_sentence,
    check_principal,
    operation_name,
    operations_of,
)
from ottla.client.administration.admin import Admin
from ottla.client.administration.security_values import AclBinding, AclBindingFilter
from ottla.client.refusals import RefusedError
from ottla.config.security import parse_super_users
from ottla.metadata.acls import (
    CLUSTER_NAME,
    EVERYBODY,
    WILDCARD,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

SUPER_USERS = "super.users"
OPEN_WITHOUT_RULES = "allow.everyone.if.no.acl.found"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """The settings of an authorizer. `None` is a value that is not known: brokers do not show these
    settings, as Kafka's do not, but they show whether there are any.
    """

    super_users: frozenset[str] | None = frozenset()
    allows_without_acls: bool | None = False


NOT_KNOWN = AccessSettings(super_users=None, allows_without_acls=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Values are Kafka's names, as in `AclBinding`. A `host` of `*` is one that no rule names."""

    principal: str
    operation: str
    resource_type: str
    name: str
    host: str = WILDCARD

    @property
    def text(self) -> str:
        """Example: May User:ana write on topic orders?"""
        host = "" if self.host == WILDCARD else f" from {self.host}"
        kind = self.resource_type.lower()
        return f"May {self.principal}{host} {self.operation.lower()} on {kind} {self.name}?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`rule` is the one that decides, if one does; `matching` are all that match the resource."""

    is_allowed: bool
    reason: Reason
    rule: AclBinding | None
    matching: list[AclBinding]
    doubts: tuple[str, ...] = ()
    """What would allow it all the same, and is not known."""

    @property
    def text(self) -> str:
        """Example: yes: allow User:ana write on topic orders."""
        said = "yes" if self.is_allowed else "no"
        return "; ".join((f"{said}: {self.reason_text}", *self.doubts))

    @property
    def reason_text(self) -> str:
        match self.reason:
            case Reason.SUPER_USER:
                return f"a super user, by {SUPER_USERS}"
            case Reason.OPEN:
                return f"the resource has no rules, and {OPEN_WITHOUT_RULES} is true"
            case Reason.NO_RULE:
                return "the resource has no rules"
            case Reason.NOT_NAMED:
                count = len(self.matching)
                rules = "is 1 rule" if count == 1 else f"are {count} rules"
                return f"there {rules} for the resource, and none allows this"
            case _:
                assert self.rule is not None
                return acl_sentence(self.rule)


def question_of(
    principal: str, operation: str, option: str, name: str, host: str | None
) -> Question:
    """Checks what a person asks; `option` is one of `RESOURCES`. Raises `UserError`."""
    check_principal(principal)
    resource_type, operation = RESOURCES[option], operation_name(operation)
    known = operations_of(resource_type)
    if operation not in known:
        raise UnknownNameError(
            f"{option} operation", operation.lower(), [one.lower() for one in known]
        )
    return Question(
        principal=principal,
        operation=operation,
        resource_type=resource_type,
        name=CLUSTER_NAME if option == "cluster" else name,
        host=host or WILDCARD,
    )


def settings_in(properties: Mapping[str, str]) -> AccessSettings:
    """The settings of a `server.properties`."""
    return AccessSettings(
        super_users=parse_super_users(properties.get(SUPER_USERS, "")),
        allows_without_acls=properties.get(OPEN_WITHOUT_RULES, "").strip().lower() == "true",
    )


def settings_shown(admin: Admin) -> AccessSettings:
    """What brokers show of their settings: that there are none, or nothing."""
    name = str(min(admin.describe_cluster().brokers))
    try:
        there = admin.describe_configs(ResourceKind.BROKER, [name])[name]
    except RefusedError:
        return NOT_KNOWN
    return AccessSettings(
        super_users=None if SUPER_USERS in there else frozenset(),
        allows_without_acls=None if OPEN_WITHOUT_RULES in there else False,
    )


def ask_access(admin: Admin, question: Question, settings: AccessSettings) -> Answer:
    """Raises `RefusedError`, also if there is no authorizer."""
    matching = admin.describe_acls(
        AclBindingFilter(
            resource_type=question.resource_type, name=question.name, pattern_type="MATCH"
        )
    )
    return judge(question, matching, settings)


def judge(question: Question, rules: Iterable[AclBinding], settings: AccessSettings) -> Answer:
    """What a broker with these settings decides; `rules` are those that match the resource."""
    matching = sorted(rules)
    by_acl = {_acl(one): one for one in matching}
    authorizer = Authorizer(
        by_acl,
        settings.super_users or frozenset(),
        allows_without_acls=bool(settings.allows_without_acls),
    )
    ruling = authorizer.rule(
        parse_principal(question.principal),
        canonical_host(question.host),
        Operation[question.operation],
        ResourceType[question.resource_type],
        question.name,
    )
    return Answer(
        is_allowed=ruling.is_allowed,
        reason=ruling.reason,
        rule=None if ruling.rule is None else by_acl[ruling.rule],
        matching=matching,
        doubts=tuple(_doubts(question, ruling, settings)),
    )


def _doubts(question: Question, ruling: Ruling, settings: AccessSettings) -> Iterator[str]:
    if ruling.is_allowed:
        return
    if settings.super_users is None:
        yield f"unless {question.principal} is one of {SUPER_USERS}, which brokers do not show"
    if ruling.reason is Reason.NO_RULE and settings.allows_without_acls is None:
        yield f"unless {OPEN_WITHOUT_RULES} is true, which brokers do not show"


def _acl(one: AclBinding) -> Acl:
    pattern = ResourcePattern(
        ResourceType[one.resource_type], PatternType[one.pattern_type], one.name
    )
    operation, permission = Operation[one.operation], Permission[one.permission]
    return Acl(pattern, Entry(one.principal, one.host, operation, permission))


def administrators(cluster_rules: Iterable[AclBinding], settings: AccessSettings) -> set[str]:
    """The principals that may change ACLs from some host (ALTER on the cluster); `User:*` if all
    may. `cluster_rules` are those of the resource type CLUSTER.
    """
    rules = list(cluster_rules)
    asked = {(one.principal, one.host) for one in rules if one.permission == "ALLOW"}
    if not rules:
        asked.add((EVERYBODY, WILDCARD))
    allowed = {
        principal
        for principal, host in asked
        if judge(alters(principal, host), rules, settings).is_allowed
    }
    return allowed | (settings.super_users or frozenset())


def alters(principal: str, host: str = WILDCARD) -> Question:
    """Whether a principal may change ACLs."""
    return Question(
        principal=principal,
        operation="ALTER",
        resource_type="CLUSTER",
        name=CLUSTER_NAME,
        host=host,
    )
