"""A broker as a member of a cluster with ZooKeeper: its session, and the controller's requests."""
