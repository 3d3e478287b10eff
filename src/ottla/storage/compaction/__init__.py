"""Compaction: keeps only the last record of each key.

One function, `compaction.compact`, turns a plan into `.cleaned` files; `replacement` replaces the
source segments by these files. This package uses no broker and no threads. Start at
`compaction.py`, then `verdict.py`. Kafka's counterparts: `Cleaner`, `LogCleanerManager`,
`SkimpyOffsetMap`.
"""
