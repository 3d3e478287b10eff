"""Compaction: of each key only the last record stays.

One function, `compaction.compact`, from a plan to `.cleaned` files; `replacement` puts these in
place of the segments they were made from. May import `record` and the rest of `storage`; knows no
broker and no thread. Start at `compaction.py`, then `verdict.py`. Kafka's counterparts: `Cleaner`,
`LogCleanerManager`, `SkimpyOffsetMap`.
"""
