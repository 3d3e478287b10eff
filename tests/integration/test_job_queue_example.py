"""`examples.job_queue`: jobs done, done again, and given up, with threads that share a consumer."""

import threading
from typing import Any

import pytest
from examples import job_queue

import ottla


@pytest.mark.slow
def test_jobs_are_done_once_done_again_where_they_fail_and_given_up_where_they_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_queue, "RENEW_S", 0.05)
    settings = {"group.share.assignment.interval.ms": 0}
    few = {"offsets.topic.num.partitions": 1, "share.coordinator.state.topic.num.partitions": 1}
    done: list[int] = []
    tried: set[int] = set()
    lock = threading.Lock()

    def handle(job: Any) -> None:
        with lock:
            if job["number"] % 5 == 0 and job["number"] not in tried:
                tried.add(job["number"])
                raise OSError("the first try fails")
            done.append(job["number"])
        threading.Event().wait(0.1 if job["number"] == 1 else 0.0)

    with ottla.open(":memory:", settings | few) as log:
        log.create_topic("jobs")
        log.append_many("jobs", [b'{"number": %d}' % number for number in range(20)])
        log.append("jobs", b"no job")
        with ottla.Admin(log) as admin:
            kind = ottla.ResourceKind.GROUP
            admin.alter_configs(kind, job_queue.GROUP, {"share.auto.offset.reset": "earliest"})
        assert job_queue.work(log, handle, idle_s=3.0) == 20
    assert sorted(done) == list(range(20))
