"""Audits as tests make them: of the log and the table that lie beside each other."""

from pathlib import Path

from ottla.loading.auditing.audit import audit
from ottla.loading.auditing.report import AuditReport
from ottla.sources.opening import open_log, source_options
from ottla.sources.options import parse_options
from ottla.tables.table import Table


def audited(
    path: Path, *, topic: str = "orders", table: str = "", tier: str = "", compare_all: bool = True
) -> AuditReport:
    """Of a topic in `log`, and `table` beside it, or the one elsewhere."""
    options = {**source_options(str(path / "log")), "subscribe": topic}
    log = open_log(parse_options({**options, "tier": tier} if tier else options))
    return audit(Table(table or str(path / "table")), log, topic, compare_all=compare_all)
