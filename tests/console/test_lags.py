"""The lag history: what outlives a console, what damage does to it, and how gaps are drawn."""

import stat
from pathlib import Path

import pytest

from ottla.console.charts import GAP_MS, line_chart
from ottla.console.lags import NAME, SAMPLES, WRITE_EVERY_MS, LagHistory, LagSample
from ottla.console.state_directory import StateDirectory
from ottla.testing import LocalBroker
from tests.console.asking import console_over

STEP = WRITE_EVERY_MS


def history(path: Path, target: str = "broker:9092") -> LagHistory:
    return LagHistory(StateDirectory(path), target)


def added(found: LagHistory, *times: int, group: str = "billing", user: str = "") -> list[int]:
    """Adds a sample at each time, with a lag of a thousandth of it; the times of all samples."""
    samples: list[LagSample] = []
    for at_ms in times:
        samples = found.add(user, group, LagSample(at_ms, at_ms // 1000, None))
    return [one.at_ms for one in samples]


def test_a_history_goes_on_after_a_restart(tmp_path: Path) -> None:
    assert added(history(tmp_path), STEP, 2 * STEP) == [STEP, 2 * STEP]
    again = history(tmp_path)
    assert added(again, 3 * STEP) == [STEP, 2 * STEP, 3 * STEP]
    assert again.remark == ""
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_lag_is_written_every_ten_seconds_however_often_it_is_looked_at(tmp_path: Path) -> None:
    looked = range(STEP, 3 * STEP, 1000)
    assert added(history(tmp_path), *looked) == list(looked)
    assert added(history(tmp_path), 9 * STEP) == [STEP, 2 * STEP, 9 * STEP]


def test_targets_users_and_groups_have_histories_of_their_own(tmp_path: Path) -> None:
    added(history(tmp_path), STEP, user="ana")
    added(history(tmp_path, "other:9092"), STEP)
    added(history(tmp_path), 2 * STEP, group="kitchen")
    assert added(history(tmp_path), 3 * STEP) == [3 * STEP]
    assert added(history(tmp_path), 4 * STEP, user="ana") == [STEP, 4 * STEP]


@pytest.mark.parametrize("damage", ["cut", "changed", "garbage", "not_utf8", "no_fields"])
def test_damaged_lines_are_named_and_left_out(tmp_path: Path, damage: str) -> None:
    added(history(tmp_path), STEP, 2 * STEP)
    file = tmp_path / NAME
    whole = file.read_bytes()
    file.write_bytes(
        {
            "cut": whole[:-20],
            "changed": whole.replace(b'"lag": 20', b'"lag": 90'),
            "garbage": whole + b"\0" * 100 + b"\n",
            "not_utf8": whole + b"\xff\xfe\n",
            "no_fields": whole + b"629e1ae0 {}\n",
        }[damage]
    )
    found = history(tmp_path)
    kept = [STEP] if damage in ("cut", "changed") else [STEP, 2 * STEP]
    assert added(found, 3 * STEP) == [*kept, 3 * STEP]
    assert found.remark.startswith(f"{file}: a line of it is damaged")
    assert added(history(tmp_path), 4 * STEP) == [*kept, 3 * STEP, 4 * STEP]


def test_a_file_keeps_its_newer_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.console.lags.MOST_SIZE", 2000)
    added(history(tmp_path), *range(STEP, 100 * STEP, STEP))
    assert (tmp_path / NAME).stat().st_size <= 2000
    *kept, last = added(history(tmp_path), 100 * STEP)
    assert 5 <= len(kept) < 20
    assert kept == [at * STEP for at in range(100 - len(kept), 100)]
    assert last == 100 * STEP


def test_samples_of_a_clock_that_was_ahead_do_not_keep_others_out(tmp_path: Path) -> None:
    added(history(tmp_path), 90 * STEP)
    assert added(history(tmp_path), STEP, 2 * STEP) == [STEP, 2 * STEP]


def test_a_history_has_a_most(tmp_path: Path) -> None:
    found = added(LagHistory(), *range(SAMPLES + 5))
    assert found == list(range(5, SAMPLES + 5))


def test_a_directory_that_cannot_be_written_is_named_and_the_page_is_shown(
    broker: LocalBroker, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    lags = history(tmp_path / "file" / "state")
    with console_over(broker.address, lags=lags) as browser:
        page = browser.text("/group?name=billing")
        assert "Earlier lags are not shown" in page or "Lags are not kept" in page
        assert "ottla console --state DIR" in page


def test_a_gap_is_drawn_as_a_gap() -> None:
    before = [(0, 5), (2000, 7)]
    after = [(2000 + GAP_MS + 1, 1), (2000 + GAP_MS + 3000, 3), (2000 + GAP_MS + 6000, 2)]
    alone = [(900_000, 4)]
    chart = line_chart([*before, *after, *alone])
    assert [len(line.split()) for line in chart.lines] == [2, 3, 2]
    assert all(area.endswith(",160") and area.split()[0].endswith(",160") for area in chart.areas)
    assert (chart.least, chart.most, chart.seconds) == (1, 7, 900)
    assert line_chart([(5, 1)]).lines == ()


def test_a_long_line_is_thinned_and_keeps_its_largest_and_its_last_value() -> None:
    chart = line_chart([(at, 900 if at == 500 else 1) for at in range(5000)])
    (line,) = chart.lines
    assert len(line.split()) <= 242
    assert any(one.endswith(",8.0") for one in line.split())
    assert line.split()[-1].startswith("1000.0,")
