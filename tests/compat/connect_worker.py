"""A worker of Kafka Connect in distributed mode: `python -m tests.compat.connect_worker FILE`.

FILE is JSON: `worker` holds its settings, `connectors` those of connectors by name, `jars` the
names of those that the connectors need. It is put
together as `org.apache.kafka.connect.cli.ConnectDistributed` does it, but without the REST server:
the jars for that are not all there (see docs/compatibility.md). When its input ends it waits until
its connectors run, tells how they are, as JSON in its last line, and stops.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.compat.java import PATIENCE_S, jars, java_class, kafka, start

JARS = (
    "connect-api",
    "connect-file",
    "connect-json",
    "connect-runtime",
    "connect-transforms",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jackson-datatype-jdk8",
    "jackson-module-blackbird",
    "jakarta.ws.rs-api",
    "jetty-client",
    "jetty-http",
    "jetty-io",
    "jetty-util",
    "jose4j",
    "maven-artifact",
)
LOOK_S = 0.1


def connect(name: str) -> Any:
    return kafka(f"connect.{name}")


def string_map(values: Mapping[str, str]) -> Any:
    made = java_class("java.util.HashMap")()
    for key, value in values.items():
        made.put(key, value)
    return made


def make_herder(settings: Mapping[str, str]) -> Any:
    """What runs connectors, not started yet (Java: `ConnectDistributed.createHerder`)."""
    worker_settings = string_map(settings)
    plugins = connect("runtime.isolation.Plugins")(worker_settings)
    plugins.compareAndSwapWithDelegatingLoader()
    config = connect("runtime.distributed.DistributedConfig")(worker_settings)
    clock, name = kafka("common.utils.Time").SYSTEM, settings["group.id"]
    admin = connect("util.SharedTopicAdmin")(
        string_map({"bootstrap.servers": settings["bootstrap.servers"], "client.id": name})
    )
    naming = supplier(name)
    json_converter = connect("json.JsonConverter")
    internal = plugins.newInternalConverter(
        True, json_converter.class_.getName(), string_map({"schemas.enable": "false"})
    )
    offsets = connect("storage.KafkaOffsetBackingStore")(admin, naming, internal)
    offsets.configure(config)
    policy = connect("connector.policy.AllConnectorClientConfigOverridePolicy")()
    policy.configure(string_map({}))
    worker = connect("runtime.Worker")(name, clock, plugins, config, offsets, policy)
    converter = worker.getInternalValueConverter()
    statuses = connect("storage.KafkaStatusBackingStore")(clock, converter, admin, name)
    statuses.configure(config)
    configs = connect("storage.KafkaConfigBackingStore")(
        converter, config, worker.configTransformer(), admin, name
    )
    return connect("runtime.distributed.DistributedHerder")(
        config, clock, worker, config.kafkaClusterId(), statuses, configs,
        "http://127.0.0.1:1/", None, policy, java_class("java.util.List").of(), no_closeables(),
    )  # fmt: skip


def supplier(value: str) -> Any:
    import jpype

    @jpype.JImplements("java.util.function.Supplier")
    class Supplier:
        @jpype.JOverride
        def get(self) -> str:
            return value

    return Supplier()


def no_closeables() -> Any:
    import jpype

    return jpype.JArray(java_class("java.lang.AutoCloseable"))(0)


def put(herder: Any, name: str, settings: Mapping[str, str]) -> None:
    """Tries again while the worker is not in its group yet."""
    deadline = time.monotonic() + PATIENCE_S
    unit = java_class("java.util.concurrent.TimeUnit").SECONDS
    while True:
        answered = connect("util.FutureCallback")()
        given = string_map({"name": name, **settings})
        herder.putConnectorConfig(name, given, True, answered)
        try:
            answered.get(int(PATIENCE_S), unit)
            return
        except java_class("java.util.concurrent.ExecutionException"):
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_S)


def states(herder: Any, name: str) -> list[str]:
    """Of a connector and its tasks; an error of a task comes with its trace."""
    state = herder.connectorStatus(name)
    tasks = [f"{one.state()} {one.trace() or ''}".strip() for one in state.tasks()]
    return [str(state.connector().state()), *tasks]


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    start(jars(*JARS, *told.get("jars", ())))
    herder = make_herder(told["worker"])
    herder.start()
    for name, settings in told["connectors"].items():
        put(herder, name, settings)
    sys.stdin.read()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = {name: states(herder, name) for name in told["connectors"]}
        if is_settled(found) or time.monotonic() > deadline:
            break
        time.sleep(LOOK_S)
    print(json.dumps(found), flush=True)
    herder.stop()


def is_settled(found: Mapping[str, list[str]]) -> bool:
    """Whether nothing is on its way from one state to another."""
    return all(one in ("RUNNING", "FAILED") for states in found.values() for one in states)


if __name__ == "__main__":
    main()
