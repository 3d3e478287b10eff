"""Formats of the log of `ottla serve`: lines for people, or a JSON object per message."""

import json
import logging
from dataclasses import asdict
from datetime import UTC, datetime

from ottla.base.events import kind_of
from ottla.base.patterns import lazy_pattern
from ottla.cli.journal import is_read_by_journal, mark

TEXT_FORMAT = "%(asctime)s %(levelname)s %(message)s"
JOURNAL_FORMAT = "%(levelname)s %(message)s"
"""Without the time, which each entry of the journal has."""
LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
"""Levels for `-q`, no option, `-v`, and `-vv`."""


class JsonFormatter(logging.Formatter):
    """`time`, `level`, `logger`, `message`; for an event also its kind, `event`, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        event = getattr(record, "event", None)
        if event is not None:
            line["event"] = kind_of(event)
            line["fields"] = asdict(event)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class JournalFormatter(logging.Formatter):
    """Marks each line of another formatter: the journal has an entry for each."""

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        begins = mark(record.levelno)
        return "\n".join(begins + line for line in self._lines.format(record).split("\n"))


_CONTROLS = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class LineFormatter(logging.Formatter):
    """One line per message: names from clients may contain newlines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = _CONTROLS.sub(
            lambda one: one[0].encode("unicode_escape").decode(), record.message
        )
        return super().formatMessage(record)


def set_up_logging(verbosity: int, *, as_json: bool) -> None:
    """Logs to standard error; `verbosity` is -1 for `-q`, and otherwise the number of `-v`."""
    handler = logging.StreamHandler()
    is_journal = is_read_by_journal()
    text_format = JOURNAL_FORMAT if is_journal else TEXT_FORMAT
    formatter = JsonFormatter() if as_json else LineFormatter(text_format)
    handler.setFormatter(JournalFormatter(formatter) if is_journal else formatter)
    level = LEVELS[min(max(verbosity + 1, 0), len(LEVELS) - 1)]
    logging.basicConfig(level=level, handlers=[handler])
