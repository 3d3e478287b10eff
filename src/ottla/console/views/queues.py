"""Queues: the share groups, and one with its members, its places and what is in flight."""

from contextlib import suppress
from typing import Final

from ottla.base.errors import ApiError, UnknownNameError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.client.administration.admin import Admin
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page, left_out
from ottla.console.views.groups import add_lags, group_fields, group_row
from ottla.console.views.view import View
from ottla.coordinator.requests import SHARE
from ottla.coordinator.share.in_flight import InFlight
from ottla.coordinator.share.records_in_flight import DeliveryState, ReturnReason

PER_PAGE: Final = 50
MOST_IN_FLIGHT: Final = 200
"""The number of ranges in flight that are shown; the others are counted."""
OF_QUEUES: Final = ("share.", "errors.deadletterqueue.")
"""How the settings of share groups begin."""

STATES: Final = {
    DeliveryState.AVAILABLE: "to be delivered again",
    DeliveryState.ACQUIRED: "with a member",
    DeliveryState.ARCHIVING: "on the way to the dead letters",
}
REASONS: Final = {
    ReturnReason.RELEASED: "released",
    ReturnReason.REJECTED: "rejected",
    ReturnReason.LOCK_EXPIRED: "lock expired",
    ReturnReason.MEMBER_LOST: "member lost",
    ReturnReason.UNKNOWN: "before this leader",
}


def queues(ask: Ask) -> Page:
    """The list of share groups, one page at a time; only what is shown is asked for."""
    wanted = ask.query.get("q", "").strip()
    lost: list[str] = []
    with ask.place.reading(lost.append) as known:
        found = [
            one
            for one in known.list_groups(on_unreachable=left_out(lost, "its groups are left out"))
            if one.kind == SHARE and wanted.lower() in one.group.lower()
        ]
        pages = max(1, -(-len(found) // PER_PAGE))
        number = ask.number("page", 1, least=1, most=pages)
        shown = []
        for one in found[(number - 1) * PER_PAGE : number * PER_PAGE]:
            shown.append(row := group_row(one.group, one.state, one.kind))
            add_lags(known, row, one, ask.now_ms, lost)
    return Page(
        template="queues.html",
        title="Queues",
        section="queues",
        data={
            "queues": shown,
            "count": len(found),
            "lost": [visible(line) for line in lost],
            "page_number": number,
            "page_count": pages,
            "q": wanted,
        },
    )


def queue(ask: Ask) -> Page:
    """One share group."""
    name = ask.query.get("name", "")
    data = group_fields(ask, name, ask.now_ms)
    if data["kind"] != SHARE:
        raise UnknownNameError("share group", name, ())
    with ask.place.reading() as admin:
        places = [TopicPartition(one["topic"], one["partition"]) for one in data["partitions"]]
        in_flight = admin.records_in_flight(name, places)
        settings = _settings(admin, name)
    counts = {(one.topic, one.partition): 0 for one in in_flight}
    for one in in_flight:
        if one.state is DeliveryState.ACQUIRED:
            counts[one.topic, one.partition] += one.last - one.first + 1
    for partition in data["partitions"]:
        partition["in_flight"] = counts.get((partition["topic"], partition["partition"]), 0)
    return Page(
        template="queue.html",
        title=f"Queue {visible(name)}",
        section="queues",
        data=data
        | {
            "in_flight": [_in_flight(one) for one in in_flight[:MOST_IN_FLIGHT]],
            "in_flight_count": len(in_flight),
            "with_members": sum(counts.values()),
            "settings": settings,
        },
    )


def _in_flight(one: InFlight) -> Fields:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "first": one.first,
        "last": one.last,
        "state": STATES[one.state],
        "member": visible(one.member),
        "since_ms": one.since_ms,
        "locked_until_ms": one.locked_until_ms,
        "delivery_count": one.delivery_count,
        "reasons": [REASONS[reason] for reason in one.reasons],
    }


def _settings(admin: Admin, name: str) -> list[Fields]:
    """None where only files are read: they do not have them all."""
    with suppress(ApiError, UserError):
        entries = admin.describe_configs(ResourceKind.GROUP, [name])[name]
        return [
            {"name": one.name, "value": visible(one.value or ""), "is_own": one.is_own}
            for one in entries.values()
            if one.name.startswith(OF_QUEUES)
        ]
    return []


VIEWS = {
    "/queues": View(queues),
    "/queue": View(queue),
}
