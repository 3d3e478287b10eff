"""`ottla.Consumer`: records of topics, alone or shared with the other members of a group.

Decisions are made in values without I/O: `assignors.py`, `classic_member.py` and
`consumer_member.py` (a member of a group in either protocol), `subscription.py` (positions and
pauses), `fetch_queue.py` (what to fetch, and what was fetched). `group.py` and `fetcher.py` carry
them out in their own threads; `consumer.py` is for applications.
"""
