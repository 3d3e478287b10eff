"""`ottla table` and `ottla audit`: tables that `ottla load` filled."""
