"""`ottla cluster`: several brokers together."""
