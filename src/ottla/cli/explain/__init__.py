"""`ottla explain`: why a broker keeps, deletes or compacts data, and which transactions and
replicas are stuck.
"""
