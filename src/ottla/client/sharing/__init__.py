"""`ottla.ShareConsumer`: records of a share group, each for one member at a time (KIP-932).

Decisions are made in values without I/O: `member.py` (a member of the group), `exchange.py` (what
to fetch and to acknowledge, and the records that are this member's). `fetcher.py` carries them out
in threads, one for each leader; `core.py` is for both kinds of applications.
"""
