"""How long a test waits for what must come.

None that passes waits as long: it is for a host of a tenth of the usual speed whose processors are
busy, and ends a test that would otherwise wait for ever.
"""

PATIENCE_S = 150
