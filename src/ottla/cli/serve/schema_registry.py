"""`ottla serve --schema-registry`: a registry for development beside the broker, as its client."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.addresses import Address, address_text, parse_address
from ottla.base.errors import ApiError, UserError
from ottla.base.extras import needed_for
from ottla.config.listeners import PLAINTEXT, Listener
from ottla.schema_registry.served.api import Api
from ottla.schema_registry.served.http import RegistryServer
from ottla.schema_registry.served.records import SCHEMAS_TOPIC

if TYPE_CHECKING:
    from ottla.client.consumer.simple import SimpleConsumer
    from ottla.client.producing.producer import Producer

SETTINGS = {"fetch.max.wait.ms": "0"}
TOPIC_SETTINGS = {"cleanup.policy": "compact"}


class BrokerSchemaLog:
    """The topic of schemas on a broker; it is created when first needed."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._next_offset = 0
        self._consumer: SimpleConsumer | None = None
        self._producer: Producer | None = None

    def read_new(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        """See `SchemaLog`."""
        consumer = self._opened()
        end = consumer.offsets_before(SCHEMAS_TOPIC)[0]
        records: list[tuple[Any, Any]] = []
        while self._next_offset < end:
            found = consumer.fetch(SCHEMAS_TOPIC, 0, self._next_offset)
            records += [(one.key, one.value) for one in found]
            self._next_offset = found[-1].offset + 1 if found else end
        return records

    def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """See `SchemaLog`."""
        import ottla

        if self._producer is None:
            self._producer = ottla.Producer(self._bootstrap, settings={"acks": "all"})
        sent = [self._producer.send(SCHEMAS_TOPIC, value, key=key) for key, value in records]
        self._producer.flush()
        try:
            for one in sent:
                one.result()
        except ApiError as error:
            raise UserError(f"{SCHEMAS_TOPIC}: {error.message}") from error

    def close(self) -> None:
        for one in (self._consumer, self._producer):
            if one is not None:
                one.close()

    def _opened(self) -> "SimpleConsumer":
        import ottla

        if self._consumer is None:
            with ottla.Admin(self._bootstrap) as admin:
                if SCHEMAS_TOPIC not in admin.list_topics():
                    admin.create_topic(SCHEMAS_TOPIC, partitions=1, configs=TOPIC_SETTINGS)
            self._consumer = ottla.SimpleConsumer(self._bootstrap, settings=SETTINGS)
        return self._consumer


class ServedRegistry:
    """The registry of one `ottla serve`."""

    def __init__(
        self, address: str, listeners: Sequence[Listener], addresses: Sequence[Address]
    ) -> None:
        """`addresses`: where each listener of the broker listens. Raises `UserError`."""
        pairs = zip(listeners, addresses, strict=True)
        plain = next((at for one, at in pairs if one.protocol == PLAINTEXT), None)
        if plain is None:
            raise UserError(
                "--schema-registry connects to the broker without a login: add a listener for it, "
                "such as PLAINTEXT://127.0.0.1:9092"
            )
        with needed_for("--schema-registry"):
            import avro  # noqa: F401
        self._log = BrokerSchemaLog(address_text(*plain))
        names = [one.advertised[0] for one in listeners if one.advertised is not None]
        self._server = RegistryServer(parse_address(address), Api(self._log), names)
        self._server.start()

    @property
    def port(self) -> int:
        return self._server.port

    def close(self) -> None:
        self._server.close()
        self._log.close()
