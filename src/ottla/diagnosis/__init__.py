"""Diagnosis of a broker and its directories: facts are gathered, and judged by pure functions.

Nothing here is used for serving, and nothing is written. `cli` adds the text and the commands that
help. Start at `directories.py`, then `doctor.py`. Checks of a log's files are in
`storage/diagnosis`.
"""
