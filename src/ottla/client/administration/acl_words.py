"""What people write about ACLs, in commands and forms: resources by option, roles, operations.

Kafka's counterpart: `kafka-acls.sh` (`AclCommand`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.client.administration.security_values import AclBinding, AclBindingFilter
from ottla.metadata.acls import CLUSTER_NAME, OPERATIONS, Operation, ResourceType

RESOURCES = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
    "cluster": "CLUSTER",
    "delegation_token": "DELEGATION_TOKEN",
    "owner": "USER",
}
"""Maps options to Kafka's resource types; the cluster has no name to give."""

ROLES = {
    "producer": (("topic", ("WRITE", "DESCRIBE", "CREATE")), ("transactional_id",
                                                              ("WRITE", "DESCRIBE"))),
    "consumer": (("topic", ("READ", "DESCRIBE")), ("group", ("READ",))),
}  # fmt: skip
"""The operations that `--role` stands for, as in kafka-acls.sh."""

ANY_PRINCIPAL = "any"
"""For every principal, where rules are listed or removed; no principal looks like it."""

OPTIONS = {kind: option for option, kind in RESOURCES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AclWords:
    """What a command or a form says of ACLs; `resources` are names by options of `RESOURCES`."""

    principal: str
    resources: Mapping[str, str]
    operations: tuple[str, ...] = ()
    role: str | None = None
    is_prefixed: bool = False
    host: str | None = None
    permission: str | None = None
    """ALLOW or DENY; without it rules are added as ALLOW, and removed either way."""
    is_anything: bool = False
    """Whether rules are removed of every resource."""

    def bindings(self) -> list[AclBinding]:
        """The rules to add; raises `UserError`."""
        if bool(self.operations) is (self.role is not None):
            raise UserError("name operations, such as read, or --role producer or consumer")
        check_principal(self.principal)
        acls = [
            AclBinding(
                **self._resource(option),
                principal=self.principal,
                host=self.host or "*",
                operation=operation_name(one),
                permission=self.permission or "ALLOW",
            )
            for option, names in self._operations_by_option().items()
            for one in names
        ]
        for acl in acls:
            check_operation(acl.resource_type, acl.operation)
        return acls

    def filters(self) -> list[AclBindingFilter]:
        """What is removed: without operations all, without a host those of any host. The principal
        `any` is every one. Raises `UserError`.
        """
        if self.is_anything and self.resources:
            raise UserError("--all-resources stands alone, without a resource")
        if not self.is_anything:
            self._check_given()
        if self.principal != ANY_PRINCIPAL:
            check_principal(self.principal)
        return [
            replace(
                one,
                host=self.host,
                permission=self.permission or "ANY",
                operation=operation_name(operation),
            )
            for one in self.resource_filters()
            for operation in self.operations or ("any",)
        ]

    @property
    def is_wide(self) -> bool:
        """Whether it removes rules of every principal, or of every resource."""
        return self.is_anything or self.principal == ANY_PRINCIPAL

    def resource_filters(self) -> list[AclBindingFilter]:
        """Filters for the resources and the principal alone."""
        principal = None if self.principal == ANY_PRINCIPAL else self.principal
        if not self.resources:
            return [AclBindingFilter(principal=principal)]
        return [AclBindingFilter(**self._resource(one), principal=principal)
                for one in self.resources]  # fmt: skip

    def _check_given(self) -> None:
        if not self.resources:
            raise UserError("name resources, such as --topic orders")

    def _operations_by_option(self) -> Mapping[str, tuple[str, ...]]:
        self._check_given()
        if self.role is None:
            return dict.fromkeys(self.resources, self.operations)
        by_role = dict(ROLES[self.role])
        wrong = [option for option in self.resources if option not in by_role]
        if wrong:
            raise UserError(
                f"--role {self.role} applies to {' and '.join(by_role)}, not {wrong[0]}"
            )
        return {option: by_role[option] for option in self.resources}

    def _resource(self, option: str) -> dict[str, str]:
        if option == "cluster":
            return {"resource_type": "CLUSTER", "name": CLUSTER_NAME}
        return {
            "resource_type": RESOURCES[option],
            "name": self.resources[option],
            "pattern_type": "PREFIXED" if self.is_prefixed else "LITERAL",
        }

    @property
    def arguments(self) -> tuple[str, ...]:
        """What `ottla acls add` and `remove` have after the target."""
        return (self.principal, *(one.lower() for one in self.operations))

    @property
    def options(self) -> tuple[str, ...]:
        """The options of `ottla acls add` and `remove`; with the arguments they say the same."""
        found = [*resource_options(self.resources)]
        if self.role is not None:
            found.insert(0, f"--role={self.role}")
        if self.is_prefixed:
            found.append("--prefixed")
        if self.host is not None:
            found.append(f"--host={self.host}")
        if self.permission is not None:
            found.append(f"--{self.permission.lower()}")
        if self.is_anything:
            found.append("--all-resources")
        return tuple(found)


def resource_options(resources: Mapping[str, str]) -> Iterator[str]:
    """Options with their values in one word each, since a name may begin with a hyphen."""
    for option, name in resources.items():
        yield "--cluster" if option == "cluster" else f"--{option.replace('_', '-')}={name}"


def check_operation(resource_type: str, operation: str) -> None:
    """Raises `UserError` for an operation that the resource type does not have; brokers accept such
    rules, as Kafka's do.
    """
    names = operations_of(resource_type)
    if operation in Operation.__members__ and operation not in ("ALL", *names):
        known = ", ".join(name.lower() for name in names)
        raise UserError(
            f"Operation {operation} is not valid for a resource of type {resource_type}: {known}"
        )


def operations_of(resource_type: str) -> list[str]:
    return [Operation(one).name for one in OPERATIONS[ResourceType[resource_type]]]


def operation_name(text: str) -> str:
    return text.upper().replace("-", "_")


def check_principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise UserError(f"{text}: a principal looks like User:ana, or User:* for everybody")
    return text


def acl_fields(acl: AclBinding) -> dict[str, str]:
    return {
        "resource": acl.resource_type.lower(),
        "name": acl.name,
        "pattern": acl.pattern_type.lower(),
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.lower(),
        "permission": acl.permission.lower(),
    }


def acl_sentence(acl: AclBinding) -> str:
    """Example: allow User:ana from 10.0.0.9 read on topic logs-*."""
    one = acl_fields(acl)
    names = f"{one['name']}*" if one["pattern"] == "prefixed" else one["name"]
    host = "" if one["host"] == "*" else f" from {one['host']}"
    return (
        f"{one['permission']} {one['principal']}{host} {one['operation']} on "
        f"{one['resource']} {names}"
    )
