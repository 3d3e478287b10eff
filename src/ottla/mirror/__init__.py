"""Mirrors: copies of another cluster's or directory's log, kept up to date.

May import `embedded`, `client`, `broker`, `storage` and below. Start at `source.py` (what is read),
`plan.py` (what to do for one partition, decided on values), then `mirror.py` (one round).
"""
