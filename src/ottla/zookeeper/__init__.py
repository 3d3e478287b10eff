"""Kafka's registries in ZooKeeper: the paths of nodes, and their contents as values.

Nothing here accesses ZooKeeper. Format page: docs/format/zookeeper.md.
"""
