"""The first page: the findings of doctor, and an overview."""

from collections import Counter

from ottla.base.errors import UnreachableError
from ottla.client.connecting.connection import ADDRESS_HINT
from ottla.console.pages import Ask, Fields, Page
from ottla.console.targets import Place
from ottla.console.views.cluster import directory_fields
from ottla.console.views.topics import INTERNAL
from ottla.console.views.view import View
from ottla.diagnosis.complaints import Complaint
from ottla.diagnosis.words.remedies import remedy_text


def overview(ask: Ask) -> Page:
    """The overview. Findings are computed in the background, because large directories take a
    while.
    """
    findings = ask.state.doctor.findings(ask.place, ask.now_ms)
    complaints = [_fields(one, ask.place.target.text) for one in findings.found or ()]
    data: Fields = {
        "target": ask.place.target.text,
        "has_broker": ask.place.has_broker,
        "findings": complaints,
        "problem_count": sum(not one["is_note"] for one in complaints),
        "is_looking": findings.is_looking,
        "has_looked": findings.found is not None,
        "age_s": round(findings.age_s),
        "failure": findings.failure,
        **_facts(ask.place),
    }
    return Page(
        template="overview.html",
        title="Overview",
        section="overview",
        data=data,
        refresh_s=2 if findings.is_looking else None,
    )


def _fields(one: Complaint, target: str) -> Fields:
    return {
        "kind": one.kind,
        "is_note": one.is_note,
        "where": one.where,
        "what": one.what,
        "fix": remedy_text(one, target),
    }


def _facts(place: Place) -> Fields:
    with place.reading() as admin:
        cluster = admin.describe_cluster()
        topics = admin.partitions()
        silent: list[UnreachableError] = []
        directories = admin.log_directories(on_unreachable=silent.append)
        # Nobody listens for files, and their groups are in all records of a topic.
        brokers = cluster.brokers if place.has_broker else {}
        groups = admin.list_groups(on_unreachable=silent.append) if place.has_broker else []
    states = Counter(one.state or "unknown" for one in groups)
    return {
        "unreachable": sorted({str(one).removesuffix(ADDRESS_HINT) for one in silent}),
        "cluster_id": cluster.cluster_id,
        "brokers": [
            {
                "id": number,
                "host": host,
                "port": port,
                "is_controller": number == cluster.controller_id,
            }
            for number, (host, port) in sorted(brokers.items())
        ],
        "topic_count": len(topics),
        "internal_count": sum(one.startswith(INTERNAL) for one in topics),
        "partition_count": sum(map(len, topics.values())),
        "directories": [directory_fields(one) for one in directories],
        "groups": dict(sorted(states.items())),
    }


VIEWS = {"/": View(overview)}
