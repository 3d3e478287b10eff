"""Looking at a log directory from outside: reading every file, judging it, and repairing it.

Nothing here takes part in serving. Only `repair` writes. Start at `dump.py`, then
`partition_check.py`, then `repair_plan.py`. Kafka's counterpart: `DumpLogSegments`, as far as it
goes; it neither judges a directory nor repairs one.
"""
