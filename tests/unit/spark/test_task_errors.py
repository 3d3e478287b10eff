"""What is told of an error that came back from a process of Spark's."""

import pytest

from ottla.base.errors import UserError
from ottla.spark.task_errors import TaskError, own_error

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
        "ottla.spark.reading.log_source.OffsetsGoneError",
        "ottla.storage.compaction.compaction.DamagedSegmentError",
    ],
)
def test_an_error_of_ours_is_one_line_wherever_it_is_defined(raised: str) -> None:
    error = own_error(RuntimeError(TRACE.format(told=f"{raised}: t-0 at byte 7: it is damaged")))
    assert isinstance(error, TaskError)
    assert str(error) == "t-0 at byte 7: it is damaged"


def test_what_a_person_did_wrong_stays_that() -> None:
    error = own_error(RuntimeError(TRACE.format(told="ottla.base.errors.UserError: name a topic")))
    assert isinstance(error, UserError)
    assert str(error) == "name a topic"


def test_an_error_of_others_is_itself() -> None:
    error = RuntimeError(TRACE.format(told="ValueError: no ottla.base.errors.UserError: here"))
    assert own_error(error) is error
