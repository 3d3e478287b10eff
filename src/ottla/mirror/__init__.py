"""Mirrors: another cluster's log, or another directory's, brought here and kept up to date.

May import `embedded`, `client`, `broker`, `storage` and below. Start at `source.py` (what is read),
`plan.py` (what to do for one partition, decided on values), then `mirror.py` (one round).
"""
