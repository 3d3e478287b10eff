"""Threads and processes for a broker's background work: flushing, cleaning.

Also process-wide concerns: forks, Ctrl-C, the limit of open files. May import `broker` and below;
`embedded` and `ottla serve` start them. Start at `flusher.py`, then `cleaning.py`.
"""
