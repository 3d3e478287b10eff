"""The active controller's decisions about access rules and users, in parts.

Kafka's counterparts: `AclControlManager`, `ScramControlManager`.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from ottla.base.errors import ApiError
from ottla.base.turns import InParts, parts_of
from ottla.broker.controlling.access_verbs import TokenVerbs
from ottla.broker.controlling.outcomes import Outcome
from ottla.broker.controlling.plans import FEW_AT_ONCE, decide_in_parts

if TYPE_CHECKING:
    from ottla.broker.security.users import ScramUpsertion
    from ottla.metadata.acls import Acl, AclFilter

LOOKED_AT_ONCE: Final = 2000
"""Rules that are compared with filters in one part: 2 ms."""

COST_OF_FILTER: Final = 5
"""Rules that are compared in the time that a filter takes which finds none."""


class AccessInParts(TokenVerbs):
    def create_acls(self, acls: "Sequence[Acl]") -> InParts[Sequence[Outcome]]:
        outcomes: list[Outcome] = []

        def decide(part: "list[Acl]") -> None:
            try:
                outcomes.extend(self._security.create_acls(part))
            except ApiError as error:
                outcomes.extend([error.without_traceback()] * len(part))

        yield from decide_in_parts(acls, decide)
        return outcomes

    def delete_acls(self, filters: "Sequence[AclFilter]") -> "InParts[Sequence[list[Acl]]]":
        """What matches at first is removed; raises `ApiError`."""
        acls, matched, looked_at = self._security.image.acls, list["list[Acl]"](), 0
        for one in filters:
            matched.append([])
            for some in chain([[]], parts_of(one.among(acls), LOOKED_AT_ONCE)):
                looked_at += COST_OF_FILTER + len(some)
                matched[-1] += one.select(some)
                if looked_at >= LOOKED_AT_ONCE:
                    looked_at = 0
                    yield
        every = (acl for found in matched for acl in found)
        yield from decide_in_parts(every, self._security.remove_acls)
        return matched

    def alter_users(self, wanted: "Sequence[ScramUpsertion]") -> InParts[Mapping[str, Outcome]]:
        of_users: dict[str, list[ScramUpsertion]] = {}
        for one in wanted:
            of_users.setdefault(one.user, []).append(one)
        outcomes: dict[str, Outcome] = {}

        def decide(part: "list[list[ScramUpsertion]]") -> None:
            try:
                outcomes.update(self._security.alter_users([*chain.from_iterable(part)]))
            except ApiError as error:
                outcomes.update((some[0].user, error.without_traceback()) for some in part)

        yield from decide_in_parts(of_users.values(), decide, FEW_AT_ONCE)
        return outcomes
