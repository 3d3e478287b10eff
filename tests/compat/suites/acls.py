"""What suites of others ask of Kafka's `kafka-acls.sh`, done by librdkafka's admin client."""

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)


def main(words: list[str]) -> int:
    arguments = _parser().parse_args(words)
    admin = AdminClient({"bootstrap.servers": arguments.bootstrap_server})
    done: dict[Any, Any] = (
        admin.create_acls([_acl(AclBinding, arguments)])
        if arguments.add
        else admin.delete_acls([_acl(AclBindingFilter, arguments)])
    )
    for one in done.values():
        one.result()
    return 0


def _acl(kind: Any, wanted: Namespace) -> Any:
    is_denied = wanted.deny_principal is not None
    return kind(
        ResourceType.TOPIC,
        wanted.topic,
        ResourcePatternType.LITERAL,
        wanted.deny_principal if is_denied else wanted.allow_principal,
        wanted.deny_host if is_denied else wanted.allow_host,
        AclOperation[wanted.operation.upper()],
        AclPermissionType.DENY if is_denied else AclPermissionType.ALLOW,
    )


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="kafka-acls.sh")
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--force", action="store_true")
    what = parser.add_mutually_exclusive_group(required=True)
    for verb in ("add", "remove"):
        what.add_argument(f"--{verb}", action="store_true")
    who = parser.add_mutually_exclusive_group(required=True)
    for permission in ("allow", "deny"):
        who.add_argument(f"--{permission}-principal")
        parser.add_argument(f"--{permission}-host", default="*")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
