"""The broker on a socket: one thread, one loop, one file per API.

May import `broker`, `protocol` and below. A new API is a file in `handlers/` and a row in
`apis.py`. Start at `listener.py`.
"""
