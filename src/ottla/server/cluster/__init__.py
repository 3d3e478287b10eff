"""Handlers of a broker that is a member of a cluster, one module for each API.

Those that are not here are the same as of a broker alone (`server/handlers`).
"""
