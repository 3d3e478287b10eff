"""`ottla explain`: why a broker keeps, deletes or compacts data, and what is stuck."""
