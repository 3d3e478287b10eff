"""The log on disk: segments, indexes, producer state, recovery, and the directories that hold them.

May import `record` and below; knows batches, not messages. Start at `segment.py`, then
`partition_log.py`.
"""
