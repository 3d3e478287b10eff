"""What `ottla explain stuck` reports about replicas that are not in sync: which, why, and how to
fix it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ottla.base.texts import size_text
from ottla.base.times import second_text
from ottla.cli.terminal import counted

if TYPE_CHECKING:
    from ottla.client.administration.stuck_replicas import StuckReplica


NAMED: Final = 3
"""How many of the partitions with the same trouble are named."""


def replica_fields(one: "StuckReplica", target: str) -> dict[str, Any]:
    """Returns one object of `--json`."""
    throttle = one.throttle
    return {
        "type": "replica",
        "topic": one.place.topic,
        "partition": one.place.partition,
        "broker": one.broker,
        "leader": one.leader,
        "in_sync": list(one.in_sync),
        "why": one.why.value,
        "lag": one.lag,
        "since_ms": one.since_ms,
        "is_adding": one.is_adding,
        "throttled_by": throttle and f"{throttle.setting} of broker {throttle.broker}",
        "throttled_rate": throttle and throttle.rate,
        "ways_out": ways_out(one, target),
    }


def replica_lines(replicas: "Iterable[StuckReplica]", target: str) -> list[list[str]]:
    """What is wrong, and the ways out of it. What is the same of several partitions, as where a
    broker does not answer, is said once, with their number and the first names.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for one in replicas:
        said = (_wrong_text(one), *(f"  - {line}" for line in ways_out(one, target)))
        alike.setdefault(said, []).append(f"{one.place.topic}-{one.place.partition}")
    return [[f"{_names_text(names)}: {what}", *ways] for (what, *ways), names in alike.items()]


def _names_text(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    more = ", ..." if len(names) > NAMED else ""
    return f"{counted(len(names), 'partition')} ({', '.join(names[:NAMED])}{more})"


def _wrong_text(one: "StuckReplica") -> str:
    from ottla.client.administration.stuck_replicas import Why

    role = "is being added, and is not in sync" if one.is_adding else "is not in sync"
    what = f"the replica of broker {one.broker} {role}: "
    if one.why is Why.SILENT_LEADER:
        what = ""
    return f"{what}{why_text(one)}"


def why_text(one: "StuckReplica") -> str:
    from ottla.client.administration.stuck_replicas import Why

    behind = f"it is {counted(one.lag or 0, 'offset')} behind"
    if one.since_ms is not None:
        behind += f", and lacks what was written since {second_text(one.since_ms)} UTC"
    match one.why:
        case Why.NOT_UP:
            return "the broker is not up"
        case Why.NO_LEADER:
            return f"the partition has no leader to follow; last in sync: {in_sync_text(one)}"
        case Why.SILENT_LEADER:
            return f"its leader, broker {one.leader}, does not answer; in sync: {in_sync_text(one)}"
        case Why.DIRECTORY_OFFLINE:
            return "its directory is offline, or its log damaged"
        case Why.THROTTLED:
            assert one.throttle is not None
            return (
                f"{behind}; throttled to {size_text(one.throttle.rate)}/s by "
                f"{one.throttle.setting} of broker {one.throttle.broker}"
            )
        case Why.BEHIND:
            return behind
        case Why.CAUGHT_UP:
            return f"it has caught up; leader {one.leader} has not added it yet"
        case Why.UNKNOWN:
            return "its progress is unknown: its broker does not report its log end offset"


def in_sync_text(one: "StuckReplica") -> str:
    return ", ".join(map(str, one.in_sync)) or "none"


def ways_out(one: "StuckReplica", target: str) -> list[str]:
    from ottla.client.administration.stuck_replicas import Why

    match one.why:
        case Why.NOT_UP:
            move = f"ottla cluster drain {target} {one.broker}"
            return [f"start broker {one.broker}, or move its replicas to others: {move}"]
        case Why.NO_LEADER:
            elect = f"ottla cluster elect {target} {one.place.topic} --unclean"
            return [
                f"start a broker that was in sync last: {in_sync_text(one)}",
                f"or elect another replica, and lose the records that it lacks: {elect}",
            ]
        case Why.SILENT_LEADER:
            again = f"ottla cluster status {target} {one.place.topic}"
            return [
                f"start broker {one.leader} if it does not run; its log says what else keeps it",
                "or wait until the controller misses it: another broker that is in sync leads "
                f"then ({again} says if there is no controller)",
            ]
        case Why.DIRECTORY_OFFLINE:
            return [
                f"repair what the log of broker {one.broker} names, and start that broker again"
            ]
        case Why.THROTTLED:
            assert one.throttle is not None
            limit = f"--broker {one.throttle.broker} {one.throttle.setting}=BYTES"
            return [f"wait, or allow more: ottla configs set {target} {limit}"]
        case Why.BEHIND:
            again = f"ottla cluster status {target} {one.place.topic}"
            return [
                f"check again whether it catches up: {again}",
                f"if not, the log of broker {one.broker} says why its fetches fail",
            ]
        case Why.CAUGHT_UP:
            return ["wait: it joins the ISR after its next fetch, once the controller agrees"]
        case Why.UNKNOWN:
            return [f"check the log of broker {one.broker}"]
