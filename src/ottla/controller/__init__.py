"""The controller of a cluster over ZooKeeper: a machine without clock, network or ZooKeeper.

Events go in (`events.py`), operations on the registries (`operations.py`) and requests to brokers
(`requests.py`) come out. Start at `machine.py`.
"""
