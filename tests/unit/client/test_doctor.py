"""What doctor asks of a broker with many topics, and of one that does not show them all."""

import time
from pathlib import Path

import pytest

import ottla
from ottla.base.error_codes import ErrorCode
from ottla.client.administration.admin import Admin
from ottla.client.administration.asking import refused
from ottla.client.administration.configs import ConfigAdmin
from ottla.client.administration.doctor import complaints, local_directories
from ottla.diagnosis.complaints import Complaint


def found(admin: Admin) -> list[Complaint]:
    files = local_directories(admin)
    assert files is not None
    return list(complaints(admin, files, round(time.time() * 1000)))


def test_the_settings_of_all_topics_are_asked_for_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ottla.open(tmp_path / "d") as log, Admin(log) as admin:
        for number in range(5):
            log.create_topic(f"t{number}", partitions=3)
        asked: list[int] = []
        describe = ConfigAdmin._describe_resources

        def counted(self: ConfigAdmin, kind: object, names: list[str], **more: object) -> object:
            asked.append(len(names))
            return describe(self, kind, names, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(ConfigAdmin, "_describe_resources", counted)
        found(admin)
        assert asked.count(1) == 1, "but for the broker's own"
        assert len(asked) == 3


def test_of_a_topic_whose_settings_are_refused_nothing_is_checked_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ottla.open(tmp_path / "d") as log, Admin(log) as admin:
        log.create_topic("shown", config={"retention.ms": 5_000})
        log.create_topic("hidden", config={"retention.ms": 5_000})
        everything = ConfigAdmin.topics_settings

        def shown(self: ConfigAdmin, topics: list[str]) -> dict[str, dict[str, str]]:
            return everything(self, [one for one in topics if one != "hidden"])

        def hidden(self: ConfigAdmin, topic: str) -> dict[str, str]:
            raise refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)

        monkeypatch.setattr(ConfigAdmin, "topics_settings", shown)
        monkeypatch.setattr(ConfigAdmin, "topic_settings", hidden)
        (one,) = [each for each in found(admin) if "hidden" in each.where]
        assert (one.kind, one.is_note) == ("settings_refused", True)
        assert "its partitions are not checked" in one.what
