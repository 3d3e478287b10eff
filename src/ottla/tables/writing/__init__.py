"""Files of a commit that readers do not see yet."""
