"""Files of a job beside Spark's checkpoint, and the checks before a restore."""

import os
import stat
from pathlib import Path

import pytest

from castleguard.errors import OutputError, SnapshotError, UnavailableError
from castleguard.spark.job_folder import (
    KEY,
    LOCK,
    PLAN,
    batch_key,
    check_batch_output,
    check_plan,
    check_stream_output,
    folder_of,
    keep_plan,
)

FACTS = {"privacy": {"k": 5}, "route": {"shards": 2}}
FILES = [("a.csv", 10, 1)]


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folder_and_files_are_private_to_their_owner(tmp_path: Path) -> None:
    with folder_of(tmp_path / "deep" / "state") as folder:
        keep_plan(folder, FACTS)
        batch_key(folder, FACTS, FILES)
        assert [rights(path) for path in (folder, folder / PLAN, folder / KEY)] == [0o700, 0o600, 0o600]


def test_folder_is_locked_against_a_second_process(tmp_path: Path) -> None:
    with folder_of(tmp_path / "state") as folder:
        with pytest.raises(UnavailableError, match="is in use by another process: stop that first"), folder_of(folder):
            pass
        keep_plan(folder, FACTS)
        with pytest.raises(UnavailableError), folder_of(folder):
            pass
    with folder_of(tmp_path / "state"):
        pass


def test_checkpoint_of_castleguard_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    with pytest.raises(OutputError, match=r"is a file, but in Spark checkpoint\.path is a folder"):
        folder_of(tmp_path / "state.db").__enter__()


def test_same_plan_is_accepted_and_differences_of_another_are_named(tmp_path: Path) -> None:
    with folder_of(tmp_path / "state") as folder:
        assert not check_plan(folder, FACTS)
        keep_plan(folder, FACTS)
        assert check_plan(folder, FACTS)
        with pytest.raises(SnapshotError) as caught:
            check_plan(folder, {"privacy": {"k": 5}, "route": {"shards": 3}})
    message = str(caught.value)
    assert (
        "belongs to a job with another route.shards. To change that: run the unchanged job with --until-idle" in message
    )
    assert message.endswith("remove the files that it has read, and use a new checkpoint.path and a new sink.path")


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(SnapshotError, match=r"holds other files \(offsets\)"):
        check_plan(tmp_path, FACTS)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "\xff"])
def test_empty_or_damaged_plan_is_refused_with_a_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / PLAN).write_text(text, encoding="latin-1")
    with pytest.raises(SnapshotError, match=r"castleguard\.json is empty or damaged.*use a new checkpoint\.path"):
        check_plan(tmp_path, FACTS)


def test_plan_is_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with folder_of(tmp_path / "state") as folder:
        monkeypatch.setattr("castleguard.durable.os.replace", fails)
        with pytest.raises(OutputError, match=r"castleguard\.json cannot be written: Input/output error"):
            keep_plan(folder, FACTS)
        assert not (folder / PLAN).exists()
        assert not check_plan(folder, FACTS)
        monkeypatch.undo()
        keep_plan(folder, FACTS)
        assert sorted(path.name for path in folder.iterdir()) == [PLAN, LOCK]
        assert check_plan(folder, FACTS)


@pytest.mark.parametrize("name", [f".{PLAN}.0a1b2c3d.part", f".{KEY}.0a1b2c3d.part", f"{PLAN}.new"])
def test_half_written_file_of_a_dead_process_does_not_block_a_job(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert not check_plan(tmp_path, FACTS)


def test_checking_a_missing_folder_does_not_create_it(tmp_path: Path) -> None:
    assert not check_plan(tmp_path / "state", FACTS)
    assert not (tmp_path / "state").exists()


def test_repeated_batch_keeps_its_key_and_another_batch_gets_a_new_one(tmp_path: Path) -> None:
    first = batch_key(tmp_path, FACTS, FILES)
    assert len(first) == 32
    assert batch_key(tmp_path, FACTS, FILES) == first
    # Changed rows must not get the earlier noise: the difference would reveal the change.
    changed = batch_key(tmp_path, FACTS, [("a.csv", 10, 2)])
    assert changed != first
    assert batch_key(tmp_path, {"privacy": {"k": 6}}, [("a.csv", 10, 2)]) not in (first, changed)


def test_damaged_key_is_refused(tmp_path: Path) -> None:
    batch_key(tmp_path, FACTS, FILES)
    text = (tmp_path / KEY).read_text()
    (tmp_path / KEY).write_text(text[:-10])
    with pytest.raises(SnapshotError, match="damaged: delete it together with the output"):
        batch_key(tmp_path, FACTS, FILES)


def test_every_flipped_bit_of_a_key_is_detected(tmp_path: Path) -> None:
    """Another key would publish the same rows with other noise."""
    key = batch_key(tmp_path, FACTS, FILES)
    whole = (tmp_path / KEY).read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / KEY).write_bytes(damaged)
        try:
            found = batch_key(tmp_path, FACTS, FILES)
        except SnapshotError:
            continue
        assert found == key


def begun(checkpoint: Path, *numbers: int, log: str = "offsets") -> None:
    (checkpoint / log).mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (checkpoint / log / str(number)).touch()


def logged(folder: Path, *names: str) -> None:
    (folder / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / "_spark_metadata" / name).write_text("v1\n")


def test_stream_starts_in_an_empty_or_missing_folder(tmp_path: Path) -> None:
    check_stream_output(tmp_path / "out", tmp_path / "state", known=False)
    logged(tmp_path / "out")
    check_stream_output(tmp_path / "out", tmp_path / "state", known=False)
    (tmp_path / "out" / "part-1").touch()
    with pytest.raises(OutputError, match="is not empty: use a folder for this job only"):
        check_stream_output(tmp_path / "out", tmp_path / "state", known=False)


def test_output_without_its_checkpoint_is_refused(tmp_path: Path) -> None:
    logged(tmp_path / "out", "0")
    with pytest.raises(OutputError, match="Spark would skip rows silently"):
        check_stream_output(tmp_path / "out", tmp_path / "state", known=False)


def test_checkpoint_older_than_the_output_is_refused(tmp_path: Path) -> None:
    logged(tmp_path / "out", "0", "9.compact", "10")
    begun(tmp_path / "state", 9)
    with pytest.raises(OutputError, match="must be an old copy"):
        check_stream_output(tmp_path / "out", tmp_path / "state", known=True)
    begun(tmp_path / "state", 10)
    check_stream_output(tmp_path / "out", tmp_path / "state", known=True)


def test_missing_output_is_refused(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    begun(state, 0)
    check_stream_output(out, state, known=True)  # no micro-batch is complete
    begun(state, 0, log="commits")
    with pytest.raises(
        OutputError, match=r"out is missing, although the checkpoint .* has published there: bring back"
    ):
        check_stream_output(out, state, known=True)
    (out / "outcome=published").mkdir(parents=True)
    with pytest.raises(OutputError, match="_spark_metadata is missing, although the checkpoint"):
        check_stream_output(out, state, known=True)
    logged(out, "0")
    check_stream_output(out, state, known=True)


def test_output_older_than_the_checkpoint_is_refused(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    begun(state, 5, 6, 7, 8)
    begun(state, 5, 6, 7, log="commits")
    logged(out, "3", "4", "5", "6")
    with pytest.raises(OutputError, match=r"out ends with micro-batch 6, but the checkpoint .* with 7"):
        check_stream_output(out, state, known=True)
    for name in ("7", "8"):  # the log of the output comes first
        logged(out, name)
        check_stream_output(out, state, known=True)


def test_batch_is_written_once(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    check_batch_output(folder)
    folder.mkdir()
    check_batch_output(folder)
    assert not folder.exists()
    (folder / "_temporary").mkdir(parents=True)
    with pytest.raises(OutputError, match="exists but is not complete"):
        check_batch_output(folder)
    (folder / "_SUCCESS").touch()
    with pytest.raises(OutputError, match="is complete, and a batch is written once"):
        check_batch_output(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="cannot be used as a checkpoint: Permission denied"):
        folder_of(tmp_path / "state").__enter__()
