from ottla.storage.remote.upload_rate import UploadRate


class Waiting:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now_ms = 5_000.0
        self.waits: list[float] = []

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wait_ms(self, time_ms: float) -> None:
        self.waits.append(time_ms)
        self.now_ms += time_ms


def test_a_second_is_free_and_what_follows_waits_for_its_bytes() -> None:
    clock = Waiting()
    take = UploadRate(1000, clock)
    for _ in range(4):
        take(250)
    assert clock.waits == []
    take(100)
    take(50)
    assert clock.waits == [100, 50]


def test_what_is_larger_than_a_second_waits_longer() -> None:
    clock = Waiting()
    UploadRate(1000, clock)(4000)
    assert clock.waits == [3000]


def test_no_more_than_a_second_is_saved() -> None:
    clock = Waiting()
    take = UploadRate(1000, clock)
    clock.now_ms += 60_000
    take(1500)
    assert clock.waits == [500]
