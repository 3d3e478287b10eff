"""Tables of commands: wide where nothing limits them, folded on a narrow screen."""

import pytest

from ottla.cli.tables import least_width, print_rows, table_lines

ROWS = [["orders", "1,000", "7 d"], ["a-long-name.of-a-topic", "7", "compact"]]
COLUMNS = ("topic", "#records", "retention")


def test_numbers_are_on_the_right_and_no_line_ends_in_spaces() -> None:
    assert table_lines(COLUMNS, ROWS) == [
        "topic                    records   retention",
        "────────────────────────────────────────────",
        "orders                     1,000   7 d",
        "a-long-name.of-a-topic         7   compact",
    ]


def test_a_narrow_screen_folds_the_longest_names_at_their_marks() -> None:
    lines = table_lines(COLUMNS, ROWS, 34)
    assert lines == [
        "topic          records   retention",
        "──────────────────────────────────",
        "orders           1,000   7 d",
        "a-long-name.         7   compact",
        "of-a-topic",
    ]


def test_where_no_fold_is_enough_each_cell_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    def printed(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        print_rows(COLUMNS, ROWS)
        return capsys.readouterr().out.splitlines()

    least = least_width(COLUMNS, ROWS)
    assert max(map(len, table_lines(COLUMNS, ROWS, least))) == least == 30
    assert printed(least - 1) == [
        "topic      orders",
        "records    1,000",
        "retention  7 d",
        "",
        "topic      a-long-name.of-a-topic",
        "records    7",
        "retention  compact",
    ]


def test_wide_characters_take_two_columns() -> None:
    heading, _, first, second = table_lines(("group", "#lag"), [["日本", "1"], ["abcd", "2"]])
    assert heading == "group   lag"
    assert first == "日本      1"
    assert second == "abcd      2"


def test_a_table_without_rows_is_its_heading() -> None:
    assert table_lines(("a", "b"), []) == ["a   b", "─────"]
