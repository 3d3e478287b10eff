"""Diagnosis of a broker and its directories: facts are gathered, and judged by pure functions.

Nothing here is used for serving, and nothing is written. May import `broker` and below; sentences
and the commands that help are `cli`'s. Start at `directories.py`, then `doctor.py`. Checks of a
log's files alone are in `storage/diagnosis`.
"""
