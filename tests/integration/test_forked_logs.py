"""A log in a process that forks: the child is refused, and the parent notices nothing of it.

Each case is a program of its own, since a fork copies all that the tests have open.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.files import OsFileSystem
from ottla.client.consumer.core import FORKED as CONSUMER_FORKED
from ottla.client.producing.core import FORKED
from ottla.storage.diagnosis.directory_check import check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(sys, "getswitchinterval"), reason="CPython's fork"),
]

PROLOGUE = """
import gc, json, os, socket, sys
import multiprocessing
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # threads are there as the process forks
import ottla

path = sys.argv[1]

def refusal(call):
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None

def in_child(work):
    # What a forked child's work returns, which ends as any Python program does.
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        os.write(sender, json.dumps(work()).encode())
        os.close(sender)
        sys.exit(0)
    os.close(sender)
    with os.fdopen(receiver) as answer:
        found = json.loads(answer.read())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return found
"""


def outcome(program: str, path: Path, *options: str) -> Any:
    """What a program prints last, as JSON; it must end well, and say nothing of errors."""
    done = subprocess.run(
        [sys.executable, *options, "-c", PROLOGUE + program, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


def assert_whole(path: Path, values: list[str], topic: str = "t") -> None:
    """It was closed as it should be, nothing is wrong with it, and each offset is there once."""
    assert (path / ".kafka_cleanshutdown").exists()
    assert check(OsFileSystem(), str(path), deep=True).findings == []
    with ottla.open(path) as log:
        records = list(log.read(topic))
        assert [(one.offset, one.value) for one in records] == [
            (offset, value.encode()) for offset, value in enumerate(values)
        ]


def test_every_call_in_a_child_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    found = outcome(
        """
builder = ottla.RecordBatchBuilder()
builder.append(None, b"v", 1)
with ottla.open(path) as log:
    log.create_topic("t")
    log.append("t", b"parent")
    log.append("t", b"parent too")
    begun, scanned = log.read("t"), log.scan("t")
    next(begun)
    simple = ottla.SimpleConsumer(log)
    simple.fetch("t")
    calls = {
        "append": lambda: log.append("t", b"child"),
        "append_batch": lambda: log.append_batch("t", 0, builder),
        "create_topic": lambda: log.create_topic("child"),
        "delete_topic": lambda: log.delete_topic("t"),
        "topics": log.topics,
        "offsets": lambda: log.offsets("t"),
        "read": lambda: list(log.read("t")),
        "a read that was begun": lambda: next(begun),
        "flush": log.flush,
        "compact": lambda: log.compact("t"),
        "listen": lambda: log.listen("127.0.0.1:0"),
        "append_many": lambda: log.append_many("t", [b"child"]),
        "scan": lambda: log.scan("t"),
        "an earlier scan": lambda: list(scanned),
        "its columns": scanned.to_arrow,
        "tail": lambda: log.tail("t"),
        "offsets_for_time": lambda: log.offsets_for_time("t", 0),
        "delete_records": lambda: log.delete_records("t", {0: 1}),
        "topic_settings": lambda: log.topic_settings("t"),
        "alter_topic": lambda: log.alter_topic("t", {"retention.ms": 1}),
        "create_partitions": lambda: log.create_partitions("t", 2),
        "a producer": lambda: ottla.Producer(log).send("t", b"child"),
        "a simple consumer": lambda: ottla.SimpleConsumer(log).fetch("t"),
        "an admin": lambda: ottla.Admin(log).list_topics(),
        "a simple consumer that was there": lambda: simple.fetch("t"),
    }
    found = in_child(lambda: {name: refusal(call) for name, call in calls.items()})
    partition, batch = log.broker.topics.partition("t", 0), bytearray(builder.build())
    appends = log.broker.appends
    direct = in_child(lambda: refusal(lambda: appends.append(partition, batch, now_ms=1)))
    log.append("t", b"parent again")
print(json.dumps([found, direct]))
""",
        tmp_path,
    )
    refusals, direct = found
    assert len(refusals) == 25
    for name, refusal in refusals.items():
        assert refusal is not None, name
        assert refusal[0] == "UserError", (name, refusal)
        assert (
            "open the log after the fork, or start processes with multiprocessing's spawn"
            in (refusal[1])
        )
    assert direct[0] == "ApiError"
    assert_whole(tmp_path, ["parent", "parent too", "parent again"])


@pytest.mark.parametrize("where", ["log.listen('127.0.0.1:0').address", "log"])
def test_a_producer_that_was_made_before_refuses_every_call_and_waits_for_no_lock(
    tmp_path: Path, where: str
) -> None:
    """Other threads hold all its locks at the fork, as the one that sends may."""
    refusals, quiet = outcome(
        f"""
import contextlib, threading
log = ottla.open(path)
log.create_topic("t")
where = {where}
producer = ottla.Producer(where, settings={{"linger.ms": 600_000}})
sent = producer.send("t", b"0")
producer.flush()
waiting = producer.send("t", b"1")
unready = ottla.Producer(where)
painter = ottla.Producer(where, settings={{"transactional.id": "painter"}})
painter.begin_transaction()
painter.send("t", b"2")
held, done = threading.Event(), threading.Event()

def hold():
    with contextlib.ExitStack() as stack:
        for one in (producer, unready, painter):
            stack.enter_context(one._core.sender.cluster_lock)  # first, as the sender does
            stack.enter_context(one._core._lock)
        held.set()
        done.wait()

holder = threading.Thread(target=hold)
holder.start()
held.wait()
place = ottla.TopicPartition("t", 0)
calls = {{
    "send": lambda: producer.send("t", b"child"),
    "send to an unknown topic": lambda: unready.send("t", b"child"),
    "produce": lambda: producer.produce("t", b"child"),
    "flush": producer.flush,
    "partitions_for": lambda: producer.partitions_for("t"),
    "result": waiting.result,
    "init": painter.init_transactions,
    "begin": painter.begin_transaction,
    "offsets": lambda: painter.send_offsets_to_transaction({{place: 1}}, "g"),
    "commit": painter.commit_transaction,
    "abort": painter.abort_transaction,
}}

def in_the_child():
    found = {{name: refusal(call) for name, call in calls.items()}}
    done_at_once = []
    sent.add_done_callback(lambda one: done_at_once.append(one.result().offset))
    producer.metrics(), painter.close(), producer.close()
    return [found, done_at_once]

found = in_child(in_the_child)
done.set()
holder.join()
painter.abort_transaction()
for one in (producer, unready, painter):
    one.close()
log.close()
print(json.dumps(found))
""",
        tmp_path,
    )
    assert len(refusals) == 11
    for name, refusal in refusals.items():
        assert refusal == ["UserError", FORKED], name
    assert quiet == [0]


@pytest.mark.parametrize("where", ["log.listen('127.0.0.1:0').address", "log"])
def test_a_consumer_that_was_made_before_refuses_every_call_and_waits_for_no_lock(
    tmp_path: Path, where: str
) -> None:
    """The child has records that were fetched, which are the parent's to return."""
    refusals, parents = outcome(
        f"""
import contextlib, threading
log = ottla.open(path)
log.create_topic("t")
log.append_many("t", [b"%d" % number for number in range(10)], partition=0)
consumer = ottla.Consumer({where}, "g", settings={{"auto.offset.reset": "earliest"}})
place = ottla.TopicPartition("t", 0)
consumer.assign({{place: 0}})
begun = iter(consumer)
values = [next(begun).value.decode()]
held, done = threading.Event(), threading.Event()

def hold():
    with consumer._core._changed:
        held.set()
        done.wait()

holder = threading.Thread(target=hold)
holder.start()
held.wait()
calls = {{
    "subscribe": lambda: consumer.subscribe("t"),
    "unsubscribe": consumer.unsubscribe,
    "assign": lambda: consumer.assign([place]),
    "assignment": consumer.assignment,
    "position": lambda: consumer.position(place),
    "seek": lambda: consumer.seek(place, 0),
    "pause": lambda: consumer.pause(place),
    "resume": lambda: consumer.resume(place),
    "paused": consumer.paused,
    "lag": lambda: consumer.lag(place),
    "poll": lambda: consumer.poll(0),
    "consume": lambda: consumer.consume(1, 0),
    "an iteration that was begun": lambda: next(begun),
    "an iteration": lambda: next(iter(consumer)),
    "commit": consumer.commit,
    "commit_async": consumer.commit_async,
    "committed": lambda: consumer.committed([place]),
    "end_offsets": lambda: consumer.end_offsets([place]),
    "topics": consumer.topics,
    "streams": lambda: consumer.streams(1),
}}

def in_the_child():
    found = {{name: refusal(call) for name, call in calls.items()}}
    consumer.close()
    return found

found = in_child(in_the_child)
done.set()
holder.join()
values += [next(begun).value.decode() for _ in range(9)]
consumer.commit()
values.append(consumer.committed([place])[place])
consumer.close()
log.close()
print(json.dumps([found, values]))
""",
        tmp_path,
    )
    assert len(refusals) == 20
    for name, refusal in refusals.items():
        assert refusal == ["ClosedError", CONSUMER_FORKED], name
    assert parents == [*map(str, range(10)), 10]


def test_clients_without_state_of_their_own_connect_again_in_a_child(tmp_path: Path) -> None:
    """The parent's connections stay as they are, though the child closes the clients."""
    children, parents = outcome(
        """
with ottla.open(path) as log:
    log.create_topic("t")
    log.append("t", b"0")
    address = log.listen("127.0.0.1:0").address
    admin, simple = ottla.Admin(address), ottla.SimpleConsumer(address)

    def ask():
        return [admin.list_topics(), [one.value.decode() for one in simple.fetch("t")]]

    def ask_and_close():
        found = ask()
        admin.close(), simple.close()
        return found

    def ports():
        return sorted(
            one._socket.getsockname()[1]
            for client in (admin, simple)
            for one in client._cluster._connections.values()
        )

    ask()
    own = ports()
    in_the_child = in_child(ask_and_close)
    print(json.dumps([in_the_child, [*ask(), ports() == own]]))
    admin.close(), simple.close()
""",
        tmp_path,
    )
    assert children == [["t"], ["0"]]
    assert parents == [["t"], ["0"], True]


@pytest.mark.parametrize(
    "ending",
    [
        "log.close() or log.close()",
        "log.__exit__(None, None, None)",
        "globals().pop('log', None) and None or gc.collect() * 0",
        "None",
    ],
    ids=["close", "with", "garbage", "exit"],
)
def test_a_child_that_is_done_with_the_log_disturbs_nobody(tmp_path: Path, ending: str) -> None:
    held = outcome(
        f"""
log = kept = ottla.open(path)
log.create_topic("t")
log.append("t", b"0")
in_child(lambda: {ending})
assert not os.path.exists(os.path.join(path, ".kafka_cleanshutdown"))
log.append("t", b"1")
import subprocess
other = subprocess.run(
    [sys.executable, "-c", "import ottla, sys; ottla.open(sys.argv[1])", path],
    capture_output=True, text=True,
)
in_child(lambda: {ending})
log.append("t", b"2")
log.close()
print(json.dumps(other.stderr.splitlines()[-1]))
""",
        tmp_path,
    )
    assert "is in use by another process" in held
    assert_whole(tmp_path, ["0", "1", "2"])


def test_a_child_may_open_the_log_once_the_parent_has_closed_it(tmp_path: Path) -> None:
    found = outcome(
        """
log = ottla.open(path)
log.create_topic("t")
log.append("t", b"0")
go_receiver, go_sender = os.pipe()
receiver, sender = os.pipe()
child = os.fork()
if child == 0:
    in_use = refusal(lambda: ottla.open(path))
    os.write(sender, b"tried")
    os.read(go_receiver, 2)
    own = ottla.open(path)
    own.append("t", b"1")
    log.close()  # the parent's: nothing happens
    own.append("t", b"2")
    # The lock is still the child's own.
    print(json.dumps([in_use, in_child(lambda: refusal(lambda: ottla.open(path)))]), flush=True)
    own.close()
    os._exit(0)
os.read(receiver, 5)
log.close()
os.write(go_sender, b"go")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""",
        tmp_path,
    )
    for refusal in found:
        assert refusal[0] == "UserError"
        assert "is in use by another process" in refusal[1]
    assert_whole(tmp_path, ["0", "1", "2"])


def test_processes_of_multiprocessing_hand_the_refusal_back(tmp_path: Path) -> None:
    found = outcome(
        """
log = ottla.open(path)
log.create_topic("t")

def append(number):
    return log.append("t", b"child").offset

def work():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = [pool.apply_async(append, [number]) for number in range(4)]
        return [refusal(one.get) for one in results]

found = work()
log.append("t", b"0")
pickled = refusal(lambda: __import__("pickle").dumps(log))
log.close()
print(json.dumps([found, pickled]))
""",
        tmp_path,
    )
    refusals, pickled = found
    assert [one[0] for one in refusals] == ["UserError"] * 4
    assert pickled == [
        "TypeError", "a log cannot be pickled; open it in the process that is to use it",
    ]  # fmt: skip
    assert_whole(tmp_path, ["0"])


def test_a_broker_that_listens_continues_and_its_port_is_its_own(tmp_path: Path) -> None:
    """A child that lives on holds neither the port nor connections of the parent."""
    pytest.importorskip("confluent_kafka")
    found = outcome(
        """
from confluent_kafka import Producer
log = ottla.open(path)
log.create_topic("t")
listening = log.listen("127.0.0.1:0")
producer = Producer({"bootstrap.servers": listening.address, "log_level": 0})
host, _, port = listening.address.rpartition(":")
idle = socket.create_connection((host, int(port)))

def produce(value):
    producer.produce("t", value, partition=0)
    assert producer.flush(100) == 0

produce(b"0")
go_receiver, go_sender = os.pipe()
receiver, sender = os.pipe()
child = os.fork()
if child == 0:
    os.close(go_sender)
    idle.close()
    listening.wake()
    listening.close()
    log.close()
    os.write(sender, json.dumps([listening.is_open, refusal(log.topics)[0]]).encode())
    os.read(go_receiver, 1)
    os._exit(0)
in_child = json.loads(os.read(receiver, 100))
produce(b"1")
log.close()
# With the child still there: the connection has ended, and the port is free.
idle.settimeout(100)
assert idle.recv(1) == b""
again = ottla.open(path)
again.listen(listening.address)
produce(b"2")
again.close()
os.close(go_sender)
os.waitpid(child, 0)
print(json.dumps(in_child))
""",
        tmp_path,
    )
    assert found == [False, "UserError"]
    assert_whole(tmp_path, ["0", "1", "2"])
