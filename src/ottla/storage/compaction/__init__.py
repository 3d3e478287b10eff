"""Compaction: keeps only the last record of each key.

One function, `compaction.compact`, turns a plan into `.cleaned` files; `replacement` puts these
files in place of the segments they were made from. May import `record` and the rest of `storage`;
knows no broker and no thread. Start at `compaction.py`, then `verdict.py`. Kafka's counterparts:
`Cleaner`, `LogCleanerManager`, `SkimpyOffsetMap`.
"""
