"""Members of a share group die, dawdle and come back, and the broker is killed: no record is with
two members, none is lost, and none comes more often than the limit says.
"""

from collections import Counter

import pytest

from tests.simulation.share_world import ShareWorld

FEW = range(4)
MORE = range(4, 12)
MANY = range(12, 120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MORE)
def test_a_share_group_delivers_all_at_least_once_and_not_too_often(seed: int) -> None:
    ShareWorld(seed).run()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_a_share_group_lives_through_more_chaos(seed: int) -> None:
    ShareWorld(seed).run()


@pytest.mark.slow
def test_a_run_has_what_it_is_to_be_about() -> None:
    """Chaos that nobody notices proves nothing."""
    counts: Counter[str] = Counter()
    for seed in FEW:
        world = ShareWorld(seed)
        world.run()
        counts += world.counts
    assert counts["delivered"] > 500
    assert min(counts[one] for one in ("ACCEPT", "RELEASE", "REJECT", "expired")) > 20
    assert counts["lost members"] > 10
    assert counts["killed"] > 3
