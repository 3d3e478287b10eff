"""`ottla configs`: settings of topics, brokers and groups, with their origin."""
