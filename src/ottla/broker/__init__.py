"""Topics and partitions over the log directories, and delayed fetches, without sockets or messages.

May import `storage` and `coordinator`, and all rooms below them; the caller passes in time and ids.
The server, the embedded log and the command line use it. Start at `broker.py`.
"""
