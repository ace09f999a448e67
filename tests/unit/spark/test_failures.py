"""Errors of Spark become one line of ours, and never show a value."""

from typing import Any

import pytest

from castleguard.errors import InputError, OutputError, SchemaError, UnavailableError
from castleguard.spark.failures import translate, translated

PAGE = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted. Task 3 failed:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "reading.py", line 80, in rows
{error}

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""


def test_our_own_error_of_a_worker_keeps_its_message() -> None:
    found = translate(RuntimeError(PAGE.format(error="castleguard.errors.SchemaError: a.csv has no column 'age'")))
    assert isinstance(found, SchemaError)
    assert str(found) == "a.csv has no column 'age'"


def test_name_that_is_not_one_of_our_errors_is_ignored() -> None:
    found = translate(RuntimeError(PAGE.format(error="castleguard.errors.Path: secret")))
    assert isinstance(found, OutputError)
    assert "secret" not in str(found)


class SparkError(Exception):
    """An error like those of pyspark."""

    condition: str | None = "STREAM_FAILED"

    def getCondition(self) -> str | None:  # noqa: N802
        return self.condition


def test_unknown_error_is_reported_by_its_condition_and_never_quoted() -> None:
    found = translate(SparkError(PAGE.format(error="pyarrow.lib.ArrowInvalid: Could not convert 'Ann Miller'")))
    assert str(found) == (
        "Spark stopped the query: STREAM_FAILED (CASTLEGUARD_DEBUG=1 shows more, possibly including values of rows)"
    )


def test_condition_is_not_taken_from_the_text_of_an_error() -> None:
    for exc in (RuntimeError("Could not convert [ANN_MILLER]"), SparkError("Could not convert [ANN_MILLER]")):
        assert "ANN" not in str(translate(exc))
    wrapped: Any = SparkError("no")
    wrapped.condition, wrapped._cause = None, SparkError("inside")
    assert str(translate(wrapped)).startswith("Spark stopped the query: STREAM_FAILED (")
    odd = SparkError("no")
    odd.condition = "STREAM_FAILED of Ann"
    assert str(translate(odd)).startswith("Spark stopped the query: SparkError (")


def test_error_without_a_condition_is_reported_by_its_type() -> None:
    assert str(translate(KeyError("Ann"))).startswith("Spark stopped the query: KeyError (")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("java.io.IOException: No space left on device", UnavailableError, "the disk is full: free some space"),
        ("java.lang.OutOfMemoryError: Java heap space", OutputError, "raise spark.driver.memory"),
        (
            "RuntimeError: castleguard failed in a worker with KeyError; ...",
            OutputError,
            "failed with KeyError; please",
        ),
    ],
)
def test_known_causes_are_reported(text: str, kind: type[Exception], message: str) -> None:
    found = translate(RuntimeError(PAGE.format(error=text)))
    assert isinstance(found, kind)
    assert message in str(found)


def test_dead_java_process_is_reported() -> None:
    with pytest.raises(UnavailableError, match="Java process has died"), translated():
        raise ConnectionRefusedError(111, "Connection refused")
    protocol = pytest.importorskip("py4j.protocol")
    assert isinstance(translate(protocol.Py4JNetworkError("Answer from Java side is empty")), UnavailableError)


def test_our_own_errors_and_os_errors_pass() -> None:
    with pytest.raises(InputError, match="as it is"), translated():
        raise InputError("as it is")
    with pytest.raises(FileNotFoundError), translated():
        raise FileNotFoundError(2, "no")
    with pytest.raises(OutputError, match="ValueError"), translated():
        raise ValueError("Ann")
