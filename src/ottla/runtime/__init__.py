"""Threads and processes that carry out a broker's work beside requests: flushing, cleaning.

Also what a process owns: its fork, its Ctrl-C, its limit of open files. May import `broker` and
below; `embedded` and `ottla serve` start them. Start at `flusher.py`, then `cleaning.py`.
"""
