"""The controller as handlers ask it: of a broker alone, or of a cluster over ZooKeeper."""
