"""Mirrors: copies of another cluster's or directory's log, kept up to date.

Start at `source.py` (what is read), `plan.py` (the decision for one partition), then `mirror.py`
(one round).
"""
