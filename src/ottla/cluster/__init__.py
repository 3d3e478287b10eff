"""A broker as one of a cluster over ZooKeeper: the session, and what the controller sends."""
