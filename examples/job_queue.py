"""A job queue: several workers, several threads in each, and no job lost or done by two at a time.

A job is a record; a worker takes a few at a time, and each is with one worker until it says what
became of it. A job that raises an exception is done again later, perhaps by another worker; one
that cannot be read is given up. While a job runs its lock is renewed, so that it may take longer
than the lock. Of a worker that is killed the jobs are done again.

    ottla serve data/ &
    echo '{"sleep": 2}' | ottla produce 127.0.0.1:9092 jobs --create
    python -m examples.job_queue 127.0.0.1:9092
    ottla queue explain 127.0.0.1:9092 workers
"""

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import ottla

TOPIC = "jobs"
GROUP = "workers"
RENEW_S = 5.0

SETTINGS: ottla.ShareConsumerSettings = {
    "share.acknowledgement.mode": "explicit",
    # No more than there are threads: other workers have the rest.
    "share.acquire.mode": "record_limit",
}


def work(
    target: Any, handle: Callable[[Any], None], *, threads: int = 4, idle_s: float | None = None
) -> int:
    """Does jobs until none has come for `idle_s` seconds, or forever; returns how many were done.
    What `handle` raises `ValueError` for is given up.
    """
    done = 0
    running: dict[Future[bool], ottla.ShareRecord] = {}
    settings: ottla.ShareConsumerSettings = {**SETTINGS, "max.poll.records": threads}
    with (
        ottla.ShareConsumer(target, GROUP, settings=settings) as consumer,
        ThreadPoolExecutor(threads) as pool,
    ):
        consumer.subscribe(TOPIC)
        quiet_since_s = renewed_s = time.monotonic()
        while idle_s is None or running or time.monotonic() - quiet_since_s < idle_s:
            if free := threads - len(running):
                for record in consumer.poll_many(free, timeout=0.1):
                    running[pool.submit(partial(_do, consumer, record, handle))] = record
            else:
                time.sleep(0.01)
            for ended in [one for one in running if one.done()]:
                done += ended.result()
                del running[ended]
                quiet_since_s = time.monotonic()
            if time.monotonic() - renewed_s >= RENEW_S:
                renewed_s = time.monotonic()
                for future, record in running.items():
                    if not future.done():
                        with suppress(ottla.LockLostError):  # It has just been acknowledged.
                            consumer.renew(record)
        consumer.commit()
    return done


def _do(consumer: ottla.ShareConsumer, record: ottla.ShareRecord, handle: Any) -> bool:
    """Whether the job is done."""
    try:
        with consumer.ack(record, rejects=ValueError):
            handle(json.loads(record.value))
    except Exception as error:  # Whatever it is, the job is done again, or given up.
        print(f"job {record.offset}, delivery {record.delivery_count}: {error!r}")
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", help="a broker's HOST:PORT")
    with ottla.Admin(parser.parse_args().target) as admin:
        kind = ottla.ResourceKind.GROUP
        admin.alter_configs(kind, GROUP, {"share.auto.offset.reset": "earliest"})
    work(parser.parse_args().target, lambda job: time.sleep(job["sleep"]))


if __name__ == "__main__":
    main()
