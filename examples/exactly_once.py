"""Balances in a database, each payment counted once, with no transaction in the broker.

The offsets are kept in the same database transaction as the balances. A worker that is killed, at
whatever moment, leaves both as they were or both as they shall be; the next one continues at the
offset that it finds there. Should a worker still write that has lost its partition to another one,
the offset is not the one it expects, and its transaction is rolled back.

    python -m examples.exactly_once 127.0.0.1:9092 balances.db
    python -m examples.exactly_once 127.0.0.1:9092 postgresql://user@host/database

The topic `payments` has the account as key, and the amount as value:

    ottla topics create 127.0.0.1:9092 payments
    echo 'ana:35' | ottla produce 127.0.0.1:9092 payments -K :
"""

import argparse
import sqlite3
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

import ottla

TOPIC = "payments"
GROUP = "balances"
RECORDS = 500
"""In one transaction, at the most."""

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, amount BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS offsets (topic TEXT, number INTEGER, next_offset BIGINT NOT NULL,"
    " PRIMARY KEY (topic, number))",
)
PAY = (
    "INSERT INTO balances VALUES (?, ?)"
    " ON CONFLICT (account) DO UPDATE SET amount = balances.amount + excluded.amount"
)
ADVANCE = (
    "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT (topic, number)"
    " DO UPDATE SET next_offset = excluded.next_offset WHERE offsets.next_offset <= ?"
)
NEXT = "SELECT next_offset FROM offsets WHERE topic = ? AND number = ?"


class TakenOverError(Exception):
    """Another worker has written results of the same partition."""


class Database(Protocol):
    """A connection of `sqlite3` or `psycopg`, as far as they agree."""

    alone: str
    """A statement after which no other worker is in such a transaction before this one ends."""

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any: ...

    def transaction(self) -> AbstractContextManager[Any]:
        """Commits at its end, or rolls back when an exception ends it."""

    def close(self) -> None: ...


class SqliteDatabase:
    alone = "SELECT 1"
    """Its transactions are alone from their begin."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level="IMMEDIATE", timeout=30)

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(query, values)

    def transaction(self) -> AbstractContextManager[Any]:
        return self._connection

    def close(self) -> None:
        self._connection.close()


class PostgresDatabase:
    alone = "SELECT pg_advisory_xact_lock(1)"
    """Two workers that create a table at once would be in each other's way."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(query.replace("?", "%s").encode(), values)

    def transaction(self) -> AbstractContextManager[Any]:
        return self._connection.transaction()

    def close(self) -> None:
        self._connection.close()


def open_database(text: str) -> Database:
    return PostgresDatabase(text) if text.startswith("postgresql:") else SqliteDatabase(text)


def work(consumer: ottla.Consumer, database: Database) -> None:
    """Takes payments into the balances until it is stopped."""

    def begin(partitions: list[ottla.TopicPartition]) -> None:
        for one in partitions:
            row = database.execute(NEXT, one).fetchone()
            if row is not None:
                consumer.seek(one, row[0])

    consumer.subscribe(TOPIC, on_assign=begin)
    while True:
        records = consumer.consume(RECORDS, timeout=1.0)
        try:
            with database.transaction():
                # In one order by all workers, so that none waits for another in a circle.
                for account, amount in sorted(sums(records).items()):
                    database.execute(PAY, (account, amount))
                advance(database, records)
        except TakenOverError:
            begin(sorted(consumer.assignment()))
            continue
        if records:
            sys.stdout.write(f"{len(records)} payments\n")
            sys.stdout.flush()


def sums(records: list[ottla.ConsumerRecord]) -> Counter[str]:
    found: Counter[str] = Counter()
    for record in records:
        found[record.key.decode()] += int(record.value)
    return found


def advance(database: Database, records: list[ottla.ConsumerRecord]) -> None:
    """The offsets after the records; raises when they are not where these records begin."""
    place = attrgetter("topic", "partition", "offset")
    for (topic, number), some in groupby(sorted(records, key=place), lambda one: place(one)[:2]):
        offsets = [one.offset for one in some]
        values = (topic, number, offsets[-1] + 1, offsets[0])
        if not database.execute(ADVANCE, values).rowcount:
            raise TakenOverError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("target", help="A broker's HOST:PORT, or a data directory.")
    parser.add_argument("database", help="A file of SQLite, or postgresql://USER@HOST/DATABASE.")
    parser.add_argument("--name", default="", help="The worker's, the same after a restart.")
    given = parser.parse_args()
    database = open_database(given.database)
    with database.transaction():
        for statement in (database.alone, *SCHEMA):
            database.execute(statement)
    settings = {
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "group.instance.id": given.name,
    }
    try:
        with ottla.Consumer(given.target, GROUP, settings=settings) as consumer:
            work(consumer, database)
    except ottla.UnknownTopicError as error:
        sys.exit(f"{error}\ncreate it first: ottla topics create {given.target} {TOPIC}")
    except ottla.UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
