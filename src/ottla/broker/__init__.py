"""Topics and partitions over the log directories, and fetches that wait: no sockets, no messages.

May import `protocol`'s neighbours `storage` and `coordinator`, and all below them; time and ids are
handed in. The server, the embedded log and the command line call it alike. Start at `broker.py`.
"""
