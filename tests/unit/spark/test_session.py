"""What a session of our own asks of Spark."""

import pytest

from ottla.spark.session import SessionSettings, session_settings

SOCKETS = "spark.python.unix.domain.socket.enabled"


@pytest.mark.parametrize(
    ("scratch", "told"), [("/tmp/ottla-spark-abcdefgh", "true"), ("/tmp/" + "long" * 20, "false")]
)
def test_python_talks_to_java_through_files_where_their_names_fit(scratch: str, told: str) -> None:
    assert session_settings(SessionSettings(), scratch)[SOCKETS] == told


def test_what_is_given_counts_over_what_is_usual() -> None:
    given = SessionSettings(spark={SOCKETS: "false", "spark.master": "local[1]"})
    settings = session_settings(given, "/tmp/s")
    assert (settings[SOCKETS], settings["spark.master"]) == ("false", "local[1]")
