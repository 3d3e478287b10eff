"""A share group on one broker, from a seed: members that fetch, say anything, die and come back; a
broker that is killed; locks that expire by a clock that is moved. What must hold, is checked at
each delivery.
"""

import random
from collections import Counter
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.share.records_in_flight import AcknowledgeType
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import disk
from tests.support.share_asking import Member, acquired, append, begin, errors, share_broker

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
LIMIT: Final = 5
LOCK_MS: Final = 30_000
STEPS: Final = 300
NAMES: Final = ("a", "b", "c")
FINAL: Final = frozenset({ACCEPT, REJECT})


class ShareWorld:
    """`counts` are what has happened."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._disk: FakeFileSystem = disk("/d")
        self._broker = share_broker(self._disk)
        begin(self._broker)
        self._members: dict[str, Member] = {}
        self._now_ms = 0.0
        self._produced = 0
        self._held: dict[int, tuple[str, float]] = {}
        """Who has a record, and until when."""
        self._final: dict[int, AcknowledgeType] = {}
        self._deliveries: Counter[int] = Counter()
        self._forgotten: Counter[int] = Counter()
        """Deliveries of each record that a crash may have made the broker forget."""
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        for _ in range(STEPS):
            deed = self._chance.choices(
                (
                    self._append,
                    self._fetch,
                    self._say,
                    self._hang_up,
                    self._wait,
                    self._kill,
                ),
                weights=(10, 40, 40, 4, 10, 1),
            )[0]
            deed()
        self._drain()

    # Deeds

    def _append(self) -> None:
        count = self._chance.randint(1, 6)
        append(self._broker, *(b"%d" % (self._produced + one) for one in range(count)))
        self._produced += count

    def _member(self) -> Member:
        name = self._chance.choice(NAMES)
        member = self._members.get(name)
        if member is None:
            member = self._members[name] = Member(self._broker, name)
        member.asker.pass_to(self._now_ms)
        return member

    def _fetch(self) -> None:
        member = self._member()
        answer = member.fetch(
            max_records=self._chance.randint(1, 12),
            share_acquire_mode=self._chance.randint(0, 1),
            batch_size=self._chance.randint(1, 5),
        )
        assert answer.error_code == 0
        assert errors(answer) in ([], [(0, 0)])
        self._delivered(member, answer)

    def _delivered(self, member: Member, answer: Any) -> None:
        for first, last, count in acquired(answer):
            for offset in range(first, last + 1):
                holder = self._held.get(offset)
                assert holder is None, f"{offset} is given to {member.name}, and is {holder}'s"
                assert offset not in self._final, f"{offset} was finished, and comes again"
                self._held[offset] = (member.name, self._now_ms + LOCK_MS)
                self._deliveries[offset] += 1
                known = self._deliveries[offset] - self._forgotten[offset]
                assert known <= count <= LIMIT, f"{offset}: delivery {known} is said to be {count}"
                self.counts["delivered"] += 1

    def _say(self) -> None:
        """A member says something of a part of what it has."""
        member = self._member()
        its = sorted(one for one, (name, _) in self._held.items() if name == member.name)
        if not its or member.epoch == 0:
            return
        some = sorted(self._chance.sample(its, self._chance.randint(1, len(its))))
        kinds = {one: self._chance.choice((ACCEPT, ACCEPT, RELEASE, REJECT)) for one in some}
        said = [(one, one, int(kind)) for one, kind in kinds.items()]
        answer = member.acknowledge(*said)
        assert answer.error_code == 0
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        for offset, kind in kinds.items():
            del self._held[offset]
            if kind in FINAL:
                self._final[offset] = kind
            self.counts[kind.name] += 1

    def _hang_up(self) -> None:
        if self._members:
            name = self._chance.choice(sorted(self._members))
            self._members.pop(name).hang_up()
            self._give_back(lambda holder, until_ms: holder == name)
            self.counts["lost members"] += 1

    def _wait(self) -> None:
        self._now_ms += self._chance.choice((10.0, 5000.0, 20_000.0))
        self._member().pass_to(self._now_ms)
        before = len(self._held)
        self._give_back(lambda holder, until_ms: until_ms <= self._now_ms)
        self.counts["expired"] += before - len(self._held)

    def _give_back(self, is_lost: Any) -> None:
        for offset, (name, until_ms) in list(self._held.items()):
            if is_lost(name, until_ms):
                del self._held[offset]

    def _kill(self) -> None:
        """What members have is theirs no more, and that delivery may be forgotten."""
        self._disk = self._disk.crash(CrashMode.KEEP)
        self._broker = share_broker(self._disk)
        self._forgotten.update(list(self._held))
        self._held.clear()
        self._members.clear()
        self._load()
        self.counts["killed"] += 1

    def _load(self) -> None:
        """Until the states are loaded, which takes some rounds."""
        member = self._member()
        place = (member.topic_id, 0)
        member.fetch(max_records=0)
        for _ in range(200):
            if self._broker.shares.led.find("g", place).is_active:
                return
            self._now_ms += 5.0
            member.pass_to(self._now_ms)
        raise AssertionError("the states are not loaded")

    def _drain(self) -> None:
        """One member takes all that is left and accepts it: then nothing is in flight."""
        for name in list(self._members):
            self._members.pop(name).hang_up()
        self._held.clear()
        member = Member(self._broker, "last")
        member.asker.pass_to(self._now_ms)
        while acquired(answer := member.fetch()):
            self._delivered(member, answer)
            its = sorted(self._held)
            member.acknowledge(*((one, one, int(ACCEPT)) for one in its))
            self._final.update(dict.fromkeys(its, ACCEPT))
            self._held.clear()
        for offset in range(self._produced):
            assert self._deliveries[offset] >= 1, f"{offset} was never delivered"
            given_up = self._deliveries[offset] >= LIMIT
            assert offset in self._final or given_up, f"{offset} is lost"
        led = self._broker.shares.led.find("g", (member.topic_id, 0))
        assert led.machine.records.start == self._produced
