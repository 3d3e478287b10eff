"""The rounds of a mirror, in either mode: one, or until it is stopped."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.base.errors import UnreachableError
from ottla.base.values import dataclass
from ottla.cli.output import Output
from ottla.cli.settings_files import read_security
from ottla.cli.terminal import StopAskedError, Stopping, report_skipped
from ottla.cli.tiers import tier_of

if TYPE_CHECKING:
    from ottla.cli.mirror.text import Totals
    from ottla.client.connecting.security import Security
    from ottla.mirror.mirror import RoundReport
    from ottla.storage.findings import Finding
    from ottla.storage.reading.opening import TierPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """The values of the options of `ottla mirror`."""

    topics: tuple[str, ...]
    exclude: tuple[str, ...]
    mode: str
    engine: str
    follow: bool
    interval: float
    throttle: int | None
    allow_gaps: bool
    skip_damaged: bool
    groups: bool
    name: str
    source_config: str | None
    target_config: str | None
    output: Output = Output()
    tier: str | None = None
    tier_key: str | None = None
    tier_config: str | None = None

    @property
    def source_security(self) -> "Security":
        """Raises `UserError`."""
        return read_security(self.source_config)

    @property
    def source_tier(self) -> "TierPlace | None":
        """Raises `UserError`."""
        names = {"tier": self.tier, "tier_key": self.tier_key, "tier_config": self.tier_config}
        return tier_of(names)

    @property
    def on_damage(self) -> "Callable[[Finding], None] | None":
        """Handles damage in a source that is a directory; `None` raises it."""
        return report_skipped if self.skip_damaged else None


def run(
    run_round: "Callable[[], RoundReport]",
    given: CopyOptions,
    stop: Stopping,
    totals: "Totals",
) -> None:
    """Runs one round, or rounds until it is stopped; waits for a source that is absent."""
    while True:
        try:
            totals.add(run_round())
        except UnreachableError as error:
            if not given.follow:
                raise
            totals.say_once(f"{error}; trying again")
        except StopAskedError:
            totals.was_stopped = True
            return
        if not given.follow or stop.wait(given.interval):
            return
