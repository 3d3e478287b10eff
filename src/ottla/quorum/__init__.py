"""The quorum of KRaft: a voter or observer of `__cluster_metadata`, as a machine without clock,
network or disk.

Its inputs are requests, responses and the time (`machine.py`); its outputs are effects, which the
caller carries out in their order (`effects.py`). What it says to other nodes is in `messages.py`.
Start at `machine.py`; the page docs/architecture/quorum.md tells the rules and why they hold.
"""
