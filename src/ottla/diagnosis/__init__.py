"""What is to be said of a broker and its directories: facts gathered, and pure judgements of them.

Nothing here takes part in serving, and nothing is written. May import `broker` and below; sentences
and the commands that help are `cli`'s. Start at `directories.py`, then `doctor.py`. What is to be
said of a log's files alone is in `storage/diagnosis`.
"""
