"""Groups by name, available even while a broker of a cluster does not answer."""

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UnknownNameError, UnreachableError
from ottla.base.texts import matching
from ottla.cli.endings import EXIT_FAILED
from ottla.cli.losses import Losses

if TYPE_CHECKING:
    from ottla.client.administration.groups import GroupAdmin


class KnownGroups:
    """The groups of the brokers that answer; what is missing is reported when it is noticed.

    `losses` are those of damaged files.
    """

    def __init__(
        self,
        admin: "GroupAdmin",
        *,
        states: Collection[str] = (),
        kinds: Collection[str] = (),
        losses: Losses | None = None,
    ) -> None:
        self._losses = Losses() if losses is None else losses
        self._warning_count = 0
        self._unreachable: list[UnreachableError] = []
        listed = admin.list_groups(states=states, on_unreachable=self._leave_out)
        self.names = [one.group for one in listed if not kinds or one.kind in kinds]
        self._kinds = {one.group: one.kind for one in listed}

    def matching(self, patterns: Sequence[str]) -> list[str]:
        """Returns the names that match the patterns, or all without patterns; raises
        `UnknownNameError`.

        While a broker does not answer, a pattern that matches nothing is a warning: that broker may
        have the group. So it is where files are damaged.
        """
        if not (self._unreachable or self._losses) or not patterns:
            return matching("group", patterns, self.names)
        found: set[str] = set()
        for pattern in patterns:
            try:
                found.update(matching("group", [pattern], self.names))
            except UnknownNameError:
                if self._losses:
                    self._say(f"{pattern} is not among the groups that are left")
                else:
                    self._say(f"no broker that answers has a group {pattern}")
        return sorted(found)

    def kind_of(self, group: str) -> str:
        """Its protocol, and nothing of a group that is not known."""
        return self._kinds.get(group, "")

    def end(self) -> None:
        """Exits with 1 after a warning."""
        if self._warning_count:
            sys.exit(EXIT_FAILED)
        self._losses.end()

    def check_has(self, group: str) -> None:
        """Raises `UnknownNameError`, or the error because of which a broker could not be asked for
        the group.
        """
        if group not in self.names:
            raise (
                self._unreachable[0]
                if self._unreachable
                else UnknownNameError("group", group, self.names)
            )

    def lag_unknown(self, group: str, error: Exception) -> None:
        self._say(f"the lag of {group} is not known: {error}")

    def _leave_out(self, error: UnreachableError) -> None:
        self._unreachable.append(error)
        self._say(f"a broker does not answer, and its groups are left out: {error}")

    def _say(self, text: str) -> None:
        self._warning_count += 1
        click.echo(f"warning: {text}", err=True)
