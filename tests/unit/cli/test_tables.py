"""Tables of commands: wide where nothing limits them, folded on a narrow screen."""

from ottla.cli.tables import table_lines

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


def test_numbers_stay_whole_on_the_narrowest_screen() -> None:
    assert any("1,000" in line for line in table_lines(COLUMNS, ROWS, 10))


def test_wide_characters_take_two_columns() -> None:
    heading, _, first, second = table_lines(("group", "#lag"), [["日本", "1"], ["abcd", "2"]])
    assert heading == "group   lag"
    assert first == "日本      1"
    assert second == "abcd      2"


def test_a_table_without_rows_is_its_heading() -> None:
    assert table_lines(("a", "b"), []) == ["a   b", "─────"]
