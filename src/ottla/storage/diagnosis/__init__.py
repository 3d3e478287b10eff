"""Inspects a log directory from outside: reads every file, checks it, and repairs it. Nothing here
is used for serving. Only `repair` writes. Start at `dump.py`, then `partition_check.py`, then
`repair_plan.py`. Kafka's counterpart: `DumpLogSegments`, as far as it goes; it neither judges a
directory nor repairs one.
"""
