"""What is told of an error that came back from a process of Spark's."""

import pytest

from ottla.base.errors import TaskError, UserError
from ottla.spark.task_errors import own_error, own_errors

TRACE = """An error occurred while calling o99.collect.
Traceback (most recent call last):
  File "somewhere.py", line 3, in read
{told}

\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    "raised",
    [
        "ottla.base.errors.CorruptionError",
        "ottla.sources.log_source.OffsetsGoneError",
        "ottla.storage.compaction.compaction.DamagedSegmentError",
    ],
)
def test_an_error_of_ours_is_one_line_wherever_it_is_defined(raised: str) -> None:
    error = own_error(RuntimeError(TRACE.format(told=f"{raised}: t-0 at byte 7: it is damaged")))
    assert isinstance(error, TaskError)
    assert str(error) == "t-0 at byte 7: it is damaged"
    assert error.kind == raised.rpartition(".")[2]


def test_what_a_person_did_wrong_stays_that() -> None:
    error = own_error(RuntimeError(TRACE.format(told="ottla.base.errors.UserError: name a topic")))
    assert isinstance(error, UserError)
    assert str(error) == "name a topic"


def test_an_error_of_others_is_itself() -> None:
    error = RuntimeError(TRACE.format(told="ValueError: no ottla.base.errors.UserError: here"))
    assert own_error(error) is error


@pytest.mark.parametrize(
    "told",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).",
        "(TID 1) (localhost executor driver): java.io.IOException: Broken pipe\n"
        "\tat java.base/sun.nio.ch.SocketDispatcher.write(SocketDispatcher.java:62)\n"
        "\tat org.apache.spark.api.python.PythonWorkerFactory.create(PythonWorkerFactory.scala)",
        "java.io.EOFException\n"
        "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:393)\n"
        "\tat org.apache.spark.api.python.PythonWorkerFactory.create(PythonWorkerFactory.scala)",
    ],
)
def test_a_killed_task_is_reported_in_one_line(told: str) -> None:
    with pytest.raises(TaskError, match="was killed, as systems do") as raised, own_errors():
        raise RuntimeError(TRACE.format(told=told))
    assert "\n" not in str(raised.value)


def test_a_disk_that_is_full_is_no_killed_task() -> None:
    told = "java.io.IOException: No space left on device"
    error = RuntimeError(TRACE.format(told=told))
    assert own_error(error) is error


def test_an_error_of_ours_that_no_task_raised_stays_itself() -> None:
    error = UserError("name a topic")
    with pytest.raises(UserError) as raised, own_errors():
        raise error
    assert raised.value is error
