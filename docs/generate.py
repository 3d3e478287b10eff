"""Writes the documents that are made from the code: `make docs`. `tests/docs` holds them to it."""

from collections.abc import Iterable
from pathlib import Path

from docs import commands, house, metrics, pictures, python_api, typed_settings
from ottla.config.broker import BrokerConfig
from ottla.config.client import ClientConfig
from ottla.config.cluster import CLUSTER_SETTINGS
from ottla.config.consumer import ConsumerConfig
from ottla.config.group import GroupConfig
from ottla.config.producer import ProducerConfig
from ottla.config.quorum import QUORUM_SETTINGS
from ottla.config.setting import Setting, settings_of
from ottla.config.share_consumer import ShareConsumerConfig
from ottla.config.topic import TopicConfig
from ottla.config.without_effect import WITHOUT_EFFECT
from ottla.protocol.messages import DECLARED, request_class
from ottla.server.dispatching.apis import APIS

DOCS = Path(__file__).resolve().parent
COMPATIBILITY = DOCS / "compatibility.md"
CONFIGURATION = DOCS / "configuration.md"
BEGIN = "<!-- made by `make docs` from src/ottla/server/dispatching/apis.py -->"
END = "<!-- end -->"


def api_table() -> str:
    """One row per API that the protocol room declares: what is answered, and what is known."""
    rows = ["| key | API | answered | declared |", "|---|---|---|---|"]
    for key in sorted(DECLARED):
        known = request_class(key).VERSIONS
        api = APIS.get(key)
        answered = f"{api.oldest}-{api.newest}" if api else "-"
        if api and not api.is_listed:
            answered += ", not listed"
        rows.append(f"| {int(key)} | {key.name} | {answered} | {known.first}-{known.last} |")
    return "\n".join(rows)


def with_table(text: str, table: str) -> str:
    """A document with what stands between the marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def configuration() -> str:
    """The page of all settings."""
    own = settings_of(BrokerConfig).values()
    topic = settings_of(TopicConfig).values()
    columns = ["setting", "type", "default", "bounds", "while running", "meaning"]
    parts = [
        CONFIGURATION_HEAD,
        "## Settings of the broker\n",
        "*while running*: a client may change it, with immediate effect.\n",
        settings_table(
            columns, [row for row in own if row.name not in CLUSTER_SETTINGS | QUORUM_SETTINGS]
        ),
        "\n## Settings of a broker in a cluster\n",
        "Of a broker with `zookeeper.connect` or `process.roles` ([cluster.md](cluster.md)). For a "
        "broker alone they "
        "have no effect; those that are given are named once in the log at the start.\n",
        settings_table(columns, [row for row in own if row.name in CLUSTER_SETTINGS]),
        "\n## Settings of a node in a KRaft cluster\n",
        "Of a node with `process.roles`, beside those of the section above that do not speak of "
        "ZooKeeper ([cluster.md](cluster.md)).\n",
        settings_table(columns, [row for row in own if row.name in QUORUM_SETTINGS]),
        "\n## Settings of topics\n",
        "Each topic may have its own; the broker's setting, which may be changed while it runs, is "
        "the default.\n",
        owner_table(topic),
        "\n## Settings of groups\n",
        "Each consumer group of the new protocol (KIP-848), and each share group (KIP-932), may "
        "have its own; the broker's setting is the default, and its `group.consumer.min.*` and "
        "`.max.*`, or `group.share.min.*` and `.max.*`, are the bounds. A group need not exist to "
        "be given settings, and keeps them when it is deleted. They hold for a member from its "
        "next heartbeat on, and for a record from its next delivery on.\n",
        owner_table(settings_of(GroupConfig).values()),
        "\n## Settings of consumers\n",
        "Of `ottla.Consumer`, `ottla.aio.Consumer` and `ottla.SimpleConsumer`.\n",
        client_table(settings_of(ConsumerConfig).values()),
        "\n## Settings of share consumers\n",
        "Of `ottla.ShareConsumer` and `ottla.aio.ShareConsumer`; see "
        "[docs/queues.md](queues.md). Locks and deliveries have settings of the group.\n",
        client_table(settings_of(ShareConsumerConfig).values()),
        "\n## Settings of producers\n",
        "Of `ottla.Producer` and `ottla.aio.Producer`; see [docs/producer.md](producer.md).\n",
        client_table(settings_of(ProducerConfig).values()),
        "\n## Settings of admin clients\n",
        "Of `ottla.Admin` and `ottla.aio.Admin`, and of commands for brokers (`-X`, "
        "`--client-config`, contexts).\n",
        client_table(settings_of(ClientConfig).values()),
        "\n## Kafka's settings that have no effect\n",
        "Accepted, and named once in the log at the start.\n",
        "| settings | why |",
        "|---|---|",
    ]
    for reason, patterns in WITHOUT_EFFECT.items():
        names = sorted(set(patterns) - settings_of(BrokerConfig).keys())
        parts.append(f"| {', '.join(f'`{name}`' for name in names)} | {reason} |")
    return "\n".join(parts) + "\n"


def settings_table(columns: list[str], rows: Iterable[Setting]) -> str:
    lines = [_row(columns), "|" + "---|" * len(columns)]
    for row in sorted(rows, key=lambda one: one.name):
        is_dynamic = "yes" if row.is_dynamic else ""
        cells = [f"`{row.name}`", row.kind, _default(row), _bounds(row), is_dynamic, row.doc]
        lines.append(_row(cells))
    return "\n".join(lines)


def owner_table(rows: Iterable[Setting]) -> str:
    """The settings of what has some of its own, with the broker's that are their defaults."""
    columns = ["setting", "the broker's", "type", "default", "bounds", "meaning"]
    lines = [_row(columns), "|" + "---|" * len(columns)]
    for row in sorted(rows, key=lambda one: one.name):
        broker_name = f"`{row.broker_name}`" if row.broker_name else ""
        cells = [f"`{row.name}`", broker_name, row.kind, _default(row), _bounds(row), row.doc]
        lines.append(_row(cells))
    return "\n".join(lines)


def client_table(rows: Iterable[Setting]) -> str:
    columns = ["setting", "type", "default", "bounds", "meaning"]
    lines = [_row(columns), "|" + "---|" * len(columns)]
    for row in sorted(rows, key=lambda one: one.name):
        cells = [f"`{row.name}`", row.kind, _default(row), _bounds(row), row.doc]
        lines.append(_row(cells))
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _default(row: Setting) -> str:
    text = row.format(row.default)
    return f"`{text}`" if text else "none"


def _bounds(row: Setting) -> str:
    if row.one_of is not None:
        return ", ".join(f"`{choice}`" for choice in row.one_of if choice) or "empty"
    bounds = []
    if row.at_least is not None:
        bounds.append(f"at least {row.at_least}")
    if row.at_most is not None:
        bounds.append(f"at most {row.at_most}")
    return ", ".join(bounds)


CONFIGURATION_HEAD = """# Configuration

<!-- made by `make docs` from src/ottla/config -->

Names and defaults are Kafka's unless the table says otherwise. They are given

- as a `server.properties`, taken as it is: `ottla serve --config server.properties`;
- one by one, which counts before the file: `ottla serve -o log.segment.bytes=1048576`;
- in process: `ottla.open(path, {"log.segment.bytes": 1 << 20})`;
- by a client while the broker runs, which counts before all of these and is kept on the disks.

A name that Kafka does not know either is refused, with the nearest one that it knows.
"""


def main() -> None:
    typed_settings.MODULE.write_text(typed_settings.module_text())
    CONFIGURATION.write_text(configuration())
    COMPATIBILITY.write_text(with_table(COMPATIBILITY.read_text(), api_table()))
    for page, text in commands.pages().items():
        page.write_text(text)
    house.write()
    metrics.write()
    pictures.write()
    python_api.write()


if __name__ == "__main__":
    main()
