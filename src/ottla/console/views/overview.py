"""The first page: the findings of doctor, and an overview."""

from collections.abc import Iterable
from typing import Any

from ottla.base.errors import UserError
from ottla.console.pages import Ask, Fields, Page
from ottla.console.targets import Place
from ottla.console.views.topics import INTERNAL
from ottla.console.views.view import View
from ottla.diagnosis.complaints import Complaint
from ottla.diagnosis.words.remedies import remedy_text


def overview(ask: Ask) -> Page:
    """The overview. Findings are computed in the background, because large directories take a
    while.
    """
    findings = ask.state.doctor.findings(ask.place, ask.now_ms)
    complaints = [_fields(one, ask.place.target.text) for one in findings.complaints or ()]
    data: Fields = {
        "target": ask.place.target.text,
        "has_broker": ask.place.has_broker,
        "findings": complaints,
        "problem_count": sum(not one["is_note"] for one in complaints),
        "is_looking": findings.is_looking,
        "has_looked": findings.complaints is not None,
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
    return _of_broker(place) if place.has_broker else _of_files(place)


def _of_broker(place: Place) -> Fields:
    with place.admin() as admin:
        cluster = admin.describe_cluster()
        topics = admin.partitions()
        directories = admin.log_directories()
        groups = admin.list_groups()
    states: dict[str, int] = {}
    for group in groups:
        states[group.state or "unknown"] = states.get(group.state or "unknown", 0) + 1
    return {
        "cluster_id": cluster.cluster_id,
        "brokers": [
            {
                "id": number,
                "host": host,
                "port": port,
                "is_controller": number == cluster.controller_id,
            }
            for number, (host, port) in sorted(cluster.brokers.items())
        ],
        "topic_count": len(topics),
        "internal_count": _internal_count(topics),
        "partition_count": sum(map(len, topics.values())),
        "directories": [
            {
                "broker": one.broker,
                "path": one.path,
                "error": one.error.name if one.error else "",
                "size": sum(one.sizes.values()),
                "partition_count": len(one.sizes),
                "usable_size": one.usable_size if one.usable_size >= 0 else None,
                "total_size": one.total_size if one.total_size >= 0 else None,
            }
            for one in directories
        ],
        "groups": dict(sorted(states.items())),
    }


def _internal_count(topics: Iterable[str]) -> int:
    return sum(one.startswith(INTERNAL) for one in topics)


def _of_files(place: Place) -> Fields:
    files = place.files()
    assert files is not None
    partitions = [len(indexes) for one in files.opened for indexes in one.topics().values()]
    directories: list[dict[str, Any]] = []
    for one in files.opened:
        try:
            space = files.file_system.space(one.path)
        except OSError as error:
            raise UserError(f"{one.path}: {error.strerror}") from error
        directories.append(
            {
                "broker": None,
                "path": one.path,
                "error": "",
                "size": None,
                "partition_count": sum(map(len, one.topics().values())),
                "usable_size": space.usable,
                "total_size": space.total,
            }
        )
    return {
        "cluster_id": None,
        "brokers": [],
        "topic_count": len(files.topics),
        "internal_count": _internal_count(files.topics),
        "partition_count": sum(partitions),
        "directories": directories,
        "groups": {},
    }


VIEWS = {"/": View(overview)}
