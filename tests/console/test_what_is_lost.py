"""Pages over a damaged directory at rest show what is sound, and say what is lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from tests.console.asking import FEW_LOGS, console_over, fill

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a transaction that is committed, one that is open, and two groups."""
    path = tmp_path_factory.mktemp("sound") / "data"
    with ottla.open(path, FEW_LOGS) as log:
        fill(log)
        with ottla.Admin(log) as admin:
            admin.alter_group_offsets("drinks", {ottla.TopicPartition("orders", 1): 1})
        with (
            ottla.Producer(log, settings={"transactional.id": "paid"}) as producer,
            producer.transaction(),
        ):
            producer.send("orders", b"x", partition=0)
        with ottla.Producer(log, settings={"transactional.id": "open"}) as producer:
            producer.begin_transaction()
            producer.send("orders", b"x", partition=1).result()
            shutil.copytree(path, path.parent / "open")
    return path.parent / "open"


def remove(partition: Path) -> None:
    shutil.rmtree(partition)


def flip_last(partition: Path) -> None:
    file = partition / f"{0:020d}.log"
    content = bytearray(file.read_bytes().rstrip(b"\0"))
    content[-3] ^= 1
    file.write_bytes(content)


def flip_first(partition: Path) -> None:
    file = partition / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[70] ^= 1
    file.write_bytes(content)


Damage = Callable[[Path], None]


@pytest.mark.parametrize("damage", [remove, flip_first, flip_last])
@pytest.mark.parametrize("name", ["__transaction_state-0", "__consumer_offsets-0", "orders-1"])
def test_transactions_and_groups_are_shown_as_far_as_they_are_sound(
    sound: Path, tmp_path: Path, name: str, damage: Damage
) -> None:
    data = tmp_path / "data"
    shutil.copytree(sound, data)
    damage(data / name)
    with console_over(data) as browser:
        pages = {one: browser.json(one) for one in ("/transactions", "/groups")}
        told = [line for page in pages.values() for line in page["lost"]]
        if damage is remove or (damage is flip_first and name != "orders-1"):
            assert any(name in line for line in told), pages
            assert name in browser.text("/transactions") + browser.text("/groups")
        if name != "__transaction_state-0":
            ids = [one["raw_id"] for one in pages["/transactions"]["transactions"]]
            assert ids == ["open", "paid"]
        if name != "__consumer_offsets-0":
            assert [one["name"] for one in pages["/groups"]["groups"]] == ["billing", "drinks"]
            answer = browser.json("/group?name=billing")
            assert answer.get("lag") is not None or name in str(answer), answer
        elif damage is not flip_last:
            answer = browser.get("/group?name=billing")
            assert name in answer.text


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x55
    file.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "meta.properties", "orders-0/partition.metadata"]
)
def test_the_overview_stands_whatever_file_is_damaged(
    sound: Path, tmp_path: Path, name: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(sound, data)
    with console_over(data) as browser:
        before = browser.json("/")
    flip(data / name)
    with console_over(data) as browser:
        after = browser.json("/")
    for key in ("topic_count", "internal_count", "partition_count"):
        assert after[key] == before[key]
    assert [one["size"] for one in after["directories"]] == [
        one["size"] for one in before["directories"]
    ]


def test_a_list_of_topics_shows_the_rest_and_says_which_partition_is_lost(
    sound: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(sound, data)
    remove(data / "orders-1")
    with console_over(data) as browser:
        found = browser.json("/topics")
        (row,) = found["topics"]
        assert row["name"] == "orders"
        assert row["size"] > 0
        (line,) = found["lost"]
        assert line.startswith(str(data / "orders-1"))
        assert line in browser.text("/topics")
        assert [one["partition_count"] for one in browser.json("/")["directories"]] == [3]


def test_a_transaction_hangs_only_if_all_that_coordinators_know_can_be_read(
    sound: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(sound, data)
    remove(data / "__transaction_state-0")
    with console_over(data) as browser:
        found = browser.json("/transactions?everywhere=1")
    assert not found["is_complete"]
    (one,) = found["open"]
    assert one["verdict"] == "unknown"
    assert one["began_ms"] is not None  # of its first record, as no coordinator says it
