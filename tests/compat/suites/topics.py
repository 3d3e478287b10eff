"""What suites of others ask of Kafka's `kafka-topics.sh`, done by librdkafka's admin client."""

import sys
from argparse import ArgumentParser, Namespace
from concurrent.futures import Future

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic


def main(words: list[str]) -> int:
    arguments = _parser().parse_args(words)
    admin = AdminClient({"bootstrap.servers": arguments.bootstrap_server})
    for done in _ask(admin, arguments).values():
        done.result()
    return 0


def _ask(admin: AdminClient, wanted: Namespace) -> dict[str, "Future[None]"]:
    if wanted.delete:
        return admin.delete_topics([wanted.topic])
    if wanted.alter:
        return admin.create_partitions([NewPartitions(wanted.topic, wanted.partitions)])
    config = dict(one.split("=", 1) for one in wanted.config)
    replicas = min(1, wanted.replication_factor)
    return admin.create_topics([NewTopic(wanted.topic, wanted.partitions, replicas, config=config)])


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="kafka-topics.sh")
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    for verb in ("create", "alter", "delete"):
        what.add_argument(f"--{verb}", action="store_true")
    parser.add_argument("--partitions", type=int, default=-1)
    parser.add_argument("--replication-factor", type=int, default=-1)
    parser.add_argument("--config", action="append", default=[])
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
