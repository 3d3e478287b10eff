"""A broker's replicas in a cluster: a machine without clock, network or disk.

Orders of the controller, fetches and responses go in; effects (`effects.py`) come out, which the
caller carries out before it calls again. Start at `replica_manager.py`.
"""
