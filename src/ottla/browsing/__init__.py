"""Records looked for: where they are read, the fields that they have, and the tests they pass."""
