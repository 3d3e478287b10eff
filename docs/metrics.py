"""docs/metrics.md and the Grafana dashboard, made from the table of metrics."""

# ruff: noqa: E501

import json
from pathlib import Path
from typing import Any

from ottla.cli.metrics.kinds import Kind, MetricName
from ottla.cli.metrics.names import SECTIONS

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "metrics.md"
DASHBOARD = DOCS / "grafana" / "ottla.json"

HEAD = """# Metrics

<!-- made by `make docs` from src/ottla/cli/metrics/names.py -->

<!-- not run: it installs -->
```console
$ pip install '.[metrics]'
```

```console
$ ottla serve -d data/ --listen 127.0.0.1:9092 --metrics 127.0.0.1:9404
ready 127.0.0.1:9092 ...
$ curl -s http://127.0.0.1:9404/metrics
...
ottla_ready 1.0
...
```

| path | answer |
|---|---|
| `/metrics` | everything below, for Prometheus; `process_*` and `python_gc_*` of the process too |
| `/healthz` | 200 while the process is alive |
| `/readyz` | 200 while clients are served; 503 with the reason while directories are recovered, when the broker stops, and when every log directory is offline |

Counters end in `_total`, and begin at 0 with each start and with each topic. Internal topics are left out, unless
`--metrics-internal` is given. The event loop counts in plain integers; a scrape reads them in its own thread, in slices of 2 ms
between which clients are served. Kafka counts no records that go out, and neither does Ottla: a fetch sends batches unread. Kafka's
counterpart is the MBean's type and the name; meters (`...PerSec`) are counters here, for `rate()`.

[grafana/ottla.json](grafana/ottla.json) is a dashboard of these metrics (Grafana: Dashboards, New, Import).

## What to alert on

| condition | what it means |
|---|---|
| `ottla_log_directory_offline == 1` | a disk has failed; its partitions are not served until a restart |
| `ottla_offline_partitions > 0` | partitions are not served; `ottla doctor` names them |
| `ottla_cleaner_failures_in_a_row > 3`, `ottla_cleaner_damaged_segments > 0` | a compacted log grows without bound; `ottla doctor` names the reason |
| `ottla_log_directory_free_bytes / ottla_log_directory_total_bytes < 0.1` | the disk is nearly full; shorten retention |
| `ottla_group_lag_seconds > 300` | a group does not keep up |
| `ottla_transaction_oldest_age_seconds > 900` | an open transaction holds up consumers of committed records, and the cleaner |
| `rate(ottla_loop_busy_seconds_total[5m]) > 0.9` | the broker has reached what one processor can do |
"""


def page() -> str:
    parts = [HEAD]
    for section in SECTIONS:
        parts += [f"\n## {section.title}\n", "| metric | kind | labels | meaning | in Kafka |"]
        parts.append("|---|---|---|---|---|")
        parts += map(_row, section.metrics)
    return "\n".join(parts) + "\n"


def _row(one: MetricName) -> str:
    suffix = "_total" if one.kind is Kind.COUNTER else ""
    labels = ", ".join(one.labels)
    return f"| `{one.name}{suffix}` | {one.kind.value} | {labels} | {one.text} | {one.kafka} |"


PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Records in", "cps", (("sum by (topic) (rate(ottla_topic_messages_in_total[$__rate_interval]))", "{{topic}}"),)),
    ("Bytes in and out", "Bps", (
        ("sum(rate(ottla_topic_bytes_in_total[$__rate_interval]))", "in"),
        ("sum(rate(ottla_topic_bytes_out_total[$__rate_interval]))", "out"),
    )),
    ("Requests", "reqps", (("sum by (api) (rate(ottla_request_duration_seconds_count[$__rate_interval]))", "{{api}}"),)),
    ("99 % of requests take less than", "s", (
        ("histogram_quantile(0.99, sum by (le, api) (rate(ottla_request_duration_seconds_bucket[$__rate_interval])))", "{{api}}"),
    )),
    ("Time that answers wait, on average", "s", (
        ("sum by (api) (rate(ottla_request_wait_seconds_sum[$__rate_interval])) / sum by (api) (rate(ottla_request_wait_seconds_count[$__rate_interval]))", "{{api}}"),
    )),
    ("Errors", "cps", (("sum by (api, error) (rate(ottla_request_errors_total[$__rate_interval]))", "{{api}} {{error}}"),)),
    ("Connections", "short", (("ottla_connections", "open"), ("sum(ottla_fetches_waiting)", "fetches that wait"))),
    ("Connections that come and go", "cps", (
        ("rate(ottla_connections_accepted_total[$__rate_interval])", "come"),
        ("sum by (reason) (rate(ottla_connections_closed_total[$__rate_interval]))", "go: {{reason}}"),
    )),
    ("The loop is busy", "percentunit", (("rate(ottla_loop_busy_seconds_total[$__rate_interval])", "busy"),)),
    ("Lag in records", "short", (("sum by (group, topic) (ottla_group_lag)", "{{group}} {{topic}}"),)),
    ("Lag in seconds", "s", (("max by (group, topic) (ottla_group_lag_seconds)", "{{group}} {{topic}}"),)),
    ("Members of groups", "short", (("sum by (group) (ottla_group_members)", "{{group}}"),)),
    ("Size of logs", "bytes", (("sum by (topic) (ottla_log_size_bytes)", "{{topic}}"),)),
    ("Not durable yet, in records", "short", (
        ("sum by (topic) (ottla_log_end_offset - ottla_log_recovery_point_offset)", "{{topic}}"),
    )),
    ("Free on the disks", "percentunit", (("ottla_log_directory_free_bytes / ottla_log_directory_total_bytes", "{{directory}}"),)),
    ("Segments rolled and deleted", "short", (
        ("increase(ottla_log_rolled_segments_total[1h])", "rolled in the last hour"),
        ("sum by (rule) (increase(ottla_retention_deleted_segments_total[1h]))", "deleted by {{rule}}"),
    )),
    ("To be compacted", "bytes", (("sum by (topic) (ottla_cleaner_backlog_bytes)", "{{topic}}"),)),
    ("Failures of the cleaner", "short", (
        ("ottla_cleaner_failures_total", "passes"), ("ottla_cleaner_passes_total", "passes that ended well"),
    )),
    ("Open transactions", "short", (("ottla_transactions_open", "open"), ("ottla_transaction_oldest_age_seconds", "age of the oldest in s"))),
    ("Not well", "short", (
        ("sum(ottla_log_directory_offline)", "directories offline"),
        ("ottla_offline_partitions", "partitions offline"),
        ("ottla_throttled_clients", "clients held back"),
        ("1 - ottla_ready", "not ready"),
    )),
    ("Processor and memory", "short", (
        ("rate(process_cpu_seconds_total[$__rate_interval])", "processors"),
        ("process_resident_memory_bytes / 1024 / 1024", "memory in MiB"),
        ("process_open_fds", "open files"),
    )),
)  # fmt: skip
"""Title, unit, and the queries with their legends."""

COLUMNS = 3


def dashboard() -> str:
    panels = [_panel(number, *one) for number, one in enumerate(PANELS)]
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}
    return (
        json.dumps(
            {
                "title": "Ottla",
                "uid": "ottla",
                "tags": ["ottla", "kafka"],
                "timezone": "browser",
                "schemaVersion": 38,
                "refresh": "30s",
                "time": {"from": "now-1h", "to": "now"},
                "templating": {"list": [source]},
                "panels": panels,
            },
            indent=1,
        )
        + "\n"
    )


def _panel(number: int, title: str, unit: str, queries: tuple[tuple[str, str], ...]) -> Any:
    source = {"type": "prometheus", "uid": "${datasource}"}
    width = 24 // COLUMNS
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": {"h": 8, "w": width, "x": number % COLUMNS * width, "y": number // COLUMNS * 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(65 + index), "expr": query, "legendFormat": legend, "datasource": source}
            for index, (query, legend) in enumerate(queries)
        ],
    }


def write() -> None:
    PAGE.write_text(page())
    DASHBOARD.write_text(dashboard())
