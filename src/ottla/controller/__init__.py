"""The controller of a cluster with ZooKeeper: a state machine without clock, network or ZooKeeper.

Its input are events (`events.py`); its output are operations on the registries (`operations.py`)
and requests to brokers (`requests.py`). Start at `machine.py`.
"""
