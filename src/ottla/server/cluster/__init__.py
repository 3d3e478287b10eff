"""Handlers of a broker that is a member of a cluster, one module for each API.

Other APIs have the handlers of a broker without a cluster (`server/handlers`).
"""
