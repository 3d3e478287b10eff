"""Kafka's registries in ZooKeeper as values: where each node is, and what its bytes say.

Nothing here asks ZooKeeper. Format page: docs/format/zookeeper.md.
"""
