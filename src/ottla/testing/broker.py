"""`LocalBroker`: a real broker in the process of a test, on a clock that the test moves.

    with LocalBroker(tmp_path) as broker:
        broker.produce("orders", "a pot of tea", key="table 4")
        run_the_application(broker.address)
        broker.assert_produced("bills", value=b"7 crowns", within_s=5)

Its log is on disk, its address is real, and any client can use it.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base.arguments import check_text
from ottla.base.closing import Closing
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnknownNameError
from ottla.config.listeners import PLAINTEXT
from ottla.embedded.environment import Environment
from ottla.embedded.listening import Listening
from ottla.embedded.log import Log, RecordMetadata, open_in
from ottla.protocol.api_keys import ApiKey
from ottla.testing.broken_disk import BreakableFileSystem
from ottla.testing.clock import MovableClock
from ottla.testing.delivered import delivered
from ottla.testing.injection import Injections
from ottla.testing.produced import ProducedRecord, describe, matches
from ottla.testing.secured import USERS, LocalSecurity

if TYPE_CHECKING:
    from ottla.config.typed_settings import BrokerSettings, TopicSettings

LISTEN = "127.0.0.1:0"
LOOK_S = 0.005
SHOWN = 10

MS_PER = {
    "milliseconds": 1,
    "seconds": 1000,
    "minutes": 60_000,
    "hours": 3_600_000,
    "days": 86_400_000,
    "weeks": 604_800_000,
}


class LocalBroker(Closing):
    """A broker on a directory, used in a `with` statement.

    >>> with LocalBroker(directory) as broker:
    ...     _ = broker.produce("teas", "Assam")
    ...     with ottla.SimpleConsumer(broker.address) as simple:
    ...         [record.value for record in simple.fetch("teas")]
    [b'Assam']
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: "BrokerSettings | Mapping[str, Any] | None" = None,
        *,
        security: str = PLAINTEXT,
        users: Mapping[str, str] = USERS,
    ) -> None:
        """`settings` are broker settings by Kafka's names. Raises `UserError`.

        `security` is a security protocol of Kafka, such as "SASL_SSL". Certificates and the `users`
        (names with passwords, for PLAIN and SCRAM) are created for it. See `client_settings`.
        """
        self.directory = Path(directory)
        beside = self.directory.with_name(f"{self.directory.name}-certificates")
        self.security = LocalSecurity(security, beside, users)
        self.clock = MovableClock()
        self.disk = BreakableFileSystem()
        self.injections = Injections()
        self._settings = self.security.settings() | dict(settings or {})
        self.log: Log = self._open()
        try:
            self._listening = self._listen(LISTEN)
        except BaseException:
            self.log.close()
            raise
        self.address: str = self._listening.address
        """HOST:PORT, for `bootstrap.servers`; the same after `restart` and `reopen`."""

    def _open(self) -> Log:
        environment = Environment(
            clock=self.clock, file_system=self.disk, handlers=self.injections.handler_of
        )
        log = open_in(environment, self.directory, self._settings)
        self.security.set_passwords(log)
        return log

    def _listen(self, address: str) -> Listening:
        return self.log.listen(address, protocol=self.security.protocol)

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """Client settings in addition to the address, by librdkafka's names; empty without
        security.

        >>> with ottla.Producer(broker.address, settings=broker.client_settings()) as producer:
        ...     producer.flush()
        0
        """
        return self.security.client_settings(user)

    def close(self) -> None:
        """Repairs the disk and stops the broker, so that cleaning up does not fail.

        >>> broker.close()
        """
        self.disk.repair()
        self.injections.clear()
        self.log.close()

    # Topics and records

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        config: "TopicSettings | Mapping[str, Any] | None" = None,
        exist_ok: bool = False,
    ) -> None:
        """Creates a topic, as `Log.create_topic` does. Topics that clients or `produce` use are
        created automatically.

        >>> broker.create_topic("teas", partitions=3)
        >>> broker.log.topics()["teas"]
        3
        """
        self.log.create_topic(name, partitions=partitions, config=config, exist_ok=exist_ok)

    def produce(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Appends a record, bypassing all injected errors. As in `assert_produced`, a text is
        encoded as UTF-8, and a dict or list as JSON.

        >>> broker.produce("orders", "a pot of tea", key="table 4").offset
        0
        >>> broker.produce("orders", {"tea": 2}).offset
        1
        """
        if topic not in self.log.topics():
            self.create_topic(topic)
        return self.log.append(
            topic,
            _bytes(value),
            _bytes(key),
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    def records(self, topic: str, partition: int | None = None) -> list[ProducedRecord]:
        """The records that read_committed consumers see in a topic, partition by partition. Empty
        if the topic does not exist.

        >>> _ = broker.produce("orders", '{"tea": 2}', headers=[("waiter", b"Eva")])
        >>> record, = broker.records("orders")
        >>> record.json, record.headers
        ({'tea': 2}, (('waiter', b'Eva'),))
        """
        count = self.log.topics().get(topic, 0)
        wanted = range(count) if partition is None else [partition]
        return [
            ProducedRecord.of(topic, index, record)
            for index in wanted
            for record in self.log.read(topic, index)
        ]

    def assert_produced(
        self,
        topic: str,
        *,
        value: Any = ...,
        key: Any = ...,
        headers: Any = ...,
        count: int | None = None,
        within_s: float = 0.0,
    ) -> list[ProducedRecord]:
        """Asserts that a topic has matching records, `count` or at least one; returns them.

        A text is compared with the UTF-8 of bytes, a dict or list with their JSON, and a function
        is called with them. Waits at most `within_s` for missing records. Raises `AssertionError`
        that shows what is there.

        >>> _ = broker.produce("orders", '{"tea": 2}', key="table 4")
        >>> record, = broker.assert_produced("orders", key="table 4", value={"tea": 2}, count=1)
        >>> broker.assert_produced("orders", value="cake")
        Traceback (most recent call last):
        AssertionError: orders should have a record with value 'cake', and 0 of its 1 match; ...
        """
        __tracebackhide__ = True  # pytest shows the test's line, not this method.
        until = time.monotonic() + within_s
        while True:
            there = self.records(topic)
            found = [one for one in there if matches(one, value=value, key=key, headers=headers)]
            is_enough = bool(found) if count is None else len(found) == count
            if is_enough or time.monotonic() >= until:
                break
            time.sleep(LOOK_S)
        if not is_enough:
            wanted = "a record" if count is None else f"{count} records"
            lines = [describe(one) for one in there[-SHOWN:]] or [self._absence(topic)]
            shown = "".join(f"\n  {line}" for line in lines)
            raise AssertionError(
                f"{topic} should have {wanted} with {describe_wanted(value, key, headers)}, and "
                f"{len(found)} of its {len(there)} match; the last are:{shown}"
            )
        return found

    def assert_delivered(
        self,
        group: str,
        topic: str,
        *,
        value: Any = ...,
        key: Any = ...,
        is_finished: bool | None = None,
        within_s: float = 0.0,
    ) -> list[ProducedRecord]:
        """Asserts that members of a share group were given matching records; returns them.

        With `is_finished` true only those that were accepted or given up are meant, with false
        those that are with a member, or are to be delivered again. The rest is as in
        `assert_produced`. `advance` lets locks expire.

        >>> broker.create_topic("jobs")
        >>> with ottla.ShareConsumer(broker.address, "workers") as consumer:
        ...     consumer.subscribe("jobs")
        ...     while (record := consumer.poll(timeout=0.1)) is None:
        ...         _ = broker.produce("jobs", "cut")  # A new group begins with what comes now.
        >>> record, *_ = broker.assert_delivered("workers", "jobs", value="cut", is_finished=True)
        """
        __tracebackhide__ = True  # pytest shows the test's line, not this method.
        until = time.monotonic() + within_s
        while True:
            there = [
                one
                for one, is_done in delivered(self.log, group, self.records(topic))
                if is_finished in (None, is_done)
            ]
            found = [one for one in there if matches(one, value=value, key=key, headers=...)]
            if found or time.monotonic() >= until:
                break
            time.sleep(LOOK_S)
        if not found:
            lines = [describe(one) for one in there[-SHOWN:]] or ["no records"]
            shown = "".join(f"\n  {line}" for line in lines)
            how = {None: "delivered", True: "finished", False: "given and not finished"}
            raise AssertionError(
                f"{group} should have a record of {topic} with {describe_wanted(value, key, ...)} "
                f"{how[is_finished]}, and 0 of its {len(there)} match; the last are:{shown}"
            )
        return found

    def _absence(self, topic: str) -> str:
        topics = self.log.topics()
        return "no records" if topic in topics else str(UnknownNameError("topic", topic, topics))

    # Time

    def advance(self, **durations: float) -> None:
        """Advances the clock, as in `advance(days=7)`, and does everything that is then due.

        Retention deletes, compaction begins, and consumer sessions, transactions and committed
        offsets expire, including those of clients that are active.

        >>> broker.create_topic("orders", config={"retention.ms": 3_600_000})
        >>> _ = broker.produce("orders", "tea")
        >>> broker.advance(days=7)
        >>> broker.records("orders")
        []
        """
        unknown = sorted(set(durations).difference(MS_PER))
        if unknown:
            raise TypeError(f"advance() takes {', '.join(MS_PER)}, not {unknown[0]}")
        self.clock.advance(sum(MS_PER[unit] * count for unit, count in durations.items()))
        self.log.run_due_jobs()

    # Faults

    def fail(self, api: str | ApiKey, error: str | ErrorCode, *, times: int | None = None) -> None:
        """Answers the next `times` requests of an API with an error, or else all requests.
        Example: `fail("produce", "NOT_LEADER_OR_FOLLOWER", times=2)`. The request is not handled.

        >>> broker.fail("metadata", "LEADER_NOT_AVAILABLE", times=2)
        """
        self.injections.fail(api, error, times=times)

    def delay(self, api: str | ApiKey, seconds: float, *, times: int | None = None) -> None:
        """Delays requests of an API; other connections are served meanwhile.

        >>> broker.delay("produce", seconds=0.2, times=1)
        """
        self.injections.delay(api, seconds, times=times)

    def drop(self, api: str | ApiKey, *, times: int | None = 1, is_handled: bool = False) -> None:
        """Closes the connection instead of responding; with `is_handled` the request is carried
        out.

        >>> broker.drop("produce", is_handled=True)  # The record is there; the answer never comes.
        """
        self.injections.drop(api, times=times, is_handled=is_handled)

    def drop_connections(self) -> None:
        """Closes all connections that are open now; clients may connect again.

        >>> broker.drop_connections()
        """
        self._listening.close()
        self._listening = self._listen(self.address)

    def heal(self) -> None:
        """Ends all injected errors and disk failures; see `reopen`.

        >>> broker.fail("produce", "NOT_ENOUGH_REPLICAS")
        >>> broker.disk.fill()
        >>> broker.heal()
        """
        self.injections.clear()
        self.disk.repair()

    def requests(self, api: str | ApiKey) -> int:
        """The number of requests of an API since the start or the last `heal`.

        >>> with ottla.Admin(broker.address) as admin:
        ...     _ = admin.list_topics()
        >>> broker.requests("metadata") > 0
        True
        """
        return self.injections.count(api)

    # Stop and start

    def crash(self) -> None:
        """Stops like a killed process: nothing is flushed, and clients are not informed.

        >>> _ = broker.produce("orders", "tea")
        >>> broker.crash()
        >>> broker.reopen()
        >>> len(broker.records("orders"))
        1
        """
        self.log.crash()

    def reopen(self) -> None:
        """Starts again on the same directory and address, after `crash` or a failed disk.

        >>> _ = broker.produce("orders", "tea")
        >>> broker.crash()
        >>> broker.reopen()
        >>> len(broker.records("orders"))
        1
        """
        self.log.crash()
        self.log = self._open()
        self._listening = self._listen(self.address)

    def restart(self) -> None:
        """Stops cleanly and starts again.

        >>> address = broker.address
        >>> broker.restart()
        >>> broker.address == address
        True
        """
        self.log.close()
        self.log = self._open()
        self._listening = self._listen(self.address)


def describe_wanted(value: Any, key: Any, headers: Any) -> str:
    given = {"value": value, "key": key, "headers": headers}
    words = [f"{name} {wanted!r}" for name, wanted in given.items() if wanted is not ...]
    return ", ".join(words) or "any content"


def _bytes(given: Any) -> Any:
    """A test's value as the bytes of a record; the log rejects values that it cannot store."""
    if isinstance(given, dict | list):
        given = json.dumps(given)
    return check_text(given, "a text").encode() if isinstance(given, str) else given
