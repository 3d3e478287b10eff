"""Whatever producers do in whatever order, a restart brings back the same, and nobody gets in who
was shut out."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.transaction.requests import ProducerAnswer, ProducerClaim
from tests.support.transactions import TransactionLog, claim_of

VERSIONS = st.sampled_from([0, 2])
CLAIMS = st.integers(min_value=0, max_value=3)
"""How many identities ago: 0 is the one that was given last."""


class Producers(RuleBasedStateMachine):
    """Producers of one transactional id, of every age; each claim was once handed out."""

    def __init__(self) -> None:
        super().__init__()
        self.log = TransactionLog()
        self.claims = [claim_of(self.log.init())]

    def _claim(self, age: int) -> tuple[ProducerClaim, bool]:
        """An identity, and whether it is the last that was given."""
        age = min(age, len(self.claims) - 1)
        return self.claims[-1 - age], age == 0

    def _given(self, answer: ProducerAnswer) -> None:
        if answer.error is ErrorCode.NONE:
            claim = claim_of(answer)
            if claim != self.claims[-1]:
                assert claim not in self.claims, "an identity is given to one at a time"
                self.claims.append(claim)

    @rule()
    def begin(self) -> None:
        self._given(self.log.init())

    @rule(age=CLAIMS)
    def recover(self, age: int) -> None:
        claim, _ = self._claim(age)
        self._given(self.log.init(expected=(claim.producer_id, claim.epoch)))

    @rule(age=CLAIMS, index=st.integers(0, 2), version=VERSIONS)
    def add(self, age: int, index: int, version: int) -> None:
        claim, is_last = self._claim(age)
        error = self.log.add(claim, ("t", index), client_version=version)
        if error is ErrorCode.NONE:
            assert is_last
            assert ("t", index) in self.log.tx().partitions

    @rule(age=CLAIMS, is_commit=st.booleans(), version=VERSIONS)
    def end(self, age: int, is_commit: bool, version: int) -> None:
        claim, is_last = self._claim(age)
        before = len(self.log.records)
        answer = self.log.end(claim, is_commit=is_commit, client_version=version)
        if not is_last:
            assert len(self.log.records) == before, "who was shut out ends nothing"
        if version == 2:
            self._given(answer)

    @rule(elapsed_ms=st.sampled_from([1, 30_000, 60_000]))
    def wait(self, elapsed_ms: int) -> None:
        self.log.pass_ms(elapsed_ms)

    @rule()
    def hold_markers_back(self) -> None:
        self.log.writes_markers = False

    @rule()
    def restart(self) -> None:
        self.log.writes_markers = True
        self.log.restart()

    @invariant()
    def a_restart_would_bring_back_the_same(self) -> None:
        before = self.log.tx()
        after = TransactionLog()
        after.records = list(self.log.records)
        after.writes_markers = False
        after.restart()
        again = after.tx()
        again.recovery = before.recovery
        assert again == before


TestProducers = Producers.TestCase
TestProducers.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
