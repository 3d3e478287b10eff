"""Requests to a web site, in the combined format of web servers' access logs: read, or made up."""

import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

TIME_FORMAT = "%d/%b/%Y:%H:%M:%S %z"
VISITORS = 60
SESSIONS = 400
PAGES = ("/", "/blog", "/blog/logs", "/blog/tables", "/projects", "/about", "/feed.xml", "/old")
START = datetime(2026, 3, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Request:
    """One line of the log; `visitor` is its first word, an address."""

    visitor: str
    time_ms: int
    line: str


def requests(path: Path | None) -> Iterator[Request]:
    """Those of a log file, gzipped or not, else made up: the same ones every time."""
    return read_requests(path) if path else made_up_requests()


def read_requests(path: Path) -> Iterator[Request]:
    """Raises `ValueError` for a line without an address and a time."""
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt") as lines:
        for line in lines:
            yield parse_request(line.rstrip("\n"))


def parse_request(line: str) -> Request:
    visitor, _, rest = line.partition(" ")
    time = rest.partition("[")[2].partition("]")[0]
    moment = datetime.strptime(time, TIME_FORMAT)
    return Request(visitor, int(moment.timestamp() * 1000), line)


def made_up_requests(seed: int = 1) -> Iterator[Request]:
    """Some days of visitors who come, look at a few pages, and come again."""
    chance = random.Random(seed)
    found = []
    for _ in range(SESSIONS):
        visitor = f"192.0.2.{chance.randrange(1, VISITORS + 1)}"
        moment = START + timedelta(seconds=chance.randrange(3 * 86_400))
        for _ in range(chance.randint(1, 12)):
            page = chance.choices(PAGES, range(len(PAGES), 0, -1))[0]
            status = 404 if page == "/old" else 200
            found.append((moment, visitor, page, status))
            moment += timedelta(seconds=chance.randrange(2, 300))
    for moment, visitor, page, status in sorted(found):
        size = 500 + len(page) * 100
        line = (
            f'{visitor} - - [{moment.strftime(TIME_FORMAT)}] "GET {page} HTTP/1.1" '
            f'{status} {size} "-" "made up"'
        )
        yield parse_request(line)
