"""`ottla.Consumer`: records of topics, alone or shared with the other members of a group.

What is decided lies in values without I/O: `assignors.py`, `classic_member.py` and
`consumer_member.py` (a member of a group in either protocol), `subscription.py` (positions and what
is paused), `fetch_queue.py` (what to fetch, and what has come). `group.py` and `fetcher.py` carry
it out in threads of their own; `consumer.py` is what applications hold.
"""
