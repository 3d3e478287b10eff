"""Topics and partitions over the log directories, and fetches that wait: no sockets, no messages.

May import `storage` and `coordinator`, and all below them; time and ids are passed in. It is used
by the server, the embedded log and the command line. Start at `broker.py`.
"""
