"""One file per API: `handle(request, context)` turns a message into broker calls and an answer.

Each says at its top which versions it serves and what it leaves out. Start at `produce.py`.
"""
