"""`ottla table` and `ottla audit`: for tables that `ottla load` filled."""
