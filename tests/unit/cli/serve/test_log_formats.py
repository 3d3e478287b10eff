"""A log line is a sentence, or one JSON object with the fields of its event."""

import json
import logging

import pytest

from ottla.broker.events import setting_changes
from ottla.cli.serve.log_formats import JsonFormatter, LineFormatter
from ottla.config.broker import broker_settings
from ottla.config.kafka_settings import kafka_settings


def test_an_event_is_an_object_with_its_kind_and_fields() -> None:
    (event,) = setting_changes("topic t", {}, {"retention.ms": "1000"}, "an-app on 10.0.0.7")
    record = logging.LogRecord("ottla.events", logging.INFO, "", 0, "%s", (event.message,), None)
    record.created = 1_700_000_000.25
    record.event = event
    assert json.loads(JsonFormatter().format(record)) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "INFO",
        "logger": "ottla.events",
        "message": "topic t: retention.ms is 1000 now, and was the default: changed by an-app on "
        "10.0.0.7",
        "event": "setting_changed",
        "fields": {
            "owner": "topic t",
            "setting": "retention.ms",
            "before": None,
            "after": "1000",
            "by": "an-app on 10.0.0.7",
        },
    }


def test_a_line_without_an_event_has_its_message_and_its_exception() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        failure = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("a", logging.ERROR, "", 0, "it %s", ("failed",), failure)
    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "it failed"
    assert line["exception"].endswith("ValueError: no")


def test_what_a_client_calls_itself_ends_no_line() -> None:
    name = "an-app\n2026-01-01 00:00:00 ERROR forged\r\x1b[2J\u2028"
    record = logging.LogRecord("a", logging.INFO, "", 0, "of %s", (name,), None)
    line = LineFormatter("%(levelname)s %(message)s").format(record)
    assert line == r"INFO of an-app\n2026-01-01 00:00:00 ERROR forged\r\x1b[2J\u2028"
    wide = logging.LogRecord("a", logging.INFO, "", 0, "drüben", (), None)
    assert LineFormatter("%(message)s").format(wide) == "drüben"


SECRETS = [
    name
    for name, row in {**broker_settings(), **kafka_settings()}.items()
    if row.kind == "password"
]


@pytest.mark.parametrize(
    "name",
    [
        *SECRETS,
        "my.plugin.key",
        "super.users",
        *(f"listener.name.inside.{name}" for name in SECRETS if name.startswith("ssl.")),
    ],
)
def test_a_secret_is_in_no_event(name: str) -> None:
    (event,) = setting_changes("broker 1", {name: "old"}, {name: "new"}, "")
    assert (event.before, event.after) == ("[hidden]", "[hidden]")


def test_a_setting_that_is_no_secret_is_shown_whatever_its_name() -> None:
    (event,) = setting_changes("broker 1", {}, {"password.encoder.iterations": "5000"}, "")
    assert event.after == "5000"
