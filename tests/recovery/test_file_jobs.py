"""Jobs that read files and write a folder of parts, from one run to the next."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from castleguard.books import Books
from castleguard.jobs.assemble import make_job
from castleguard.jobs.load import load

JOB = """\
source: {{type: {source}, path: {path}}}
schema:
  person: who
  quasi_identifiers:
    - {{name: age, lower: 0, upper: 100, step: 5}}
  public: [row, note]
privacy: {{algorithm: castle, k: 2, delay: 20}}
sink: {{type: {sink}, path: out}}
checkpoint: {{path: state.db, every: 5s}}
dead_letter: {{path: rejects.jsonl}}
"""


class Place:
    """A folder with a job."""

    def __init__(self, folder: Path, *, source: str, path: str, sink: str) -> None:
        self.folder = folder
        (folder / "job.yaml").write_text(JOB.format(source=source, path=path, sink=sink))

    def run(self) -> Books:
        """Run the job to the end of its source; return its books."""
        job = make_job(load(self.folder / "job.yaml"))
        assert job.run() == "finished"
        return job.books()

    def out(self, format: str) -> pa.Table:
        """All parts as one data set."""
        return pads.dataset(self.folder / "out", format=format).to_table()


def rows(first: int, count: int, note: pa.Array) -> pa.Table:
    numbers = list(range(first, first + count))
    return pa.table({"who": numbers, "age": [at * 7 % 100 for at in numbers], "row": numbers, "note": note})


@pytest.mark.parametrize("sink", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "later",
    [pa.array([7] * 40), pa.array(["7"] * 40), pa.nulls(40, pa.int64()), pa.nulls(40)],
    ids=["numbers", "texts", "no number", "no type"],
)
def test_parts_form_one_data_set_even_if_a_column_is_null_in_one(tmp_path: Path, sink: str, later: pa.Array) -> None:
    """The first file has no type for the column, as pandas writes it for a column without values."""
    place = Place(tmp_path, source="parquet", path="in", sink=sink)
    (tmp_path / "in").mkdir()
    pq.write_table(rows(0, 40, pa.nulls(40)), tmp_path / "in" / "1.parquet")
    place.run()
    pq.write_table(rows(40, 40, later), tmp_path / "in" / "2.parquet")
    place.run()
    found = place.out(sink)
    assert sorted(found["row"].to_pylist()) == list(range(80))
    assert found["note"].null_count == 40 + later.null_count


def test_column_whose_values_come_later_is_text_in_all_parts(tmp_path: Path) -> None:
    place = Place(tmp_path, source="parquet", path="in", sink="parquet")
    (tmp_path / "in").mkdir()
    pq.write_table(rows(0, 40, pa.nulls(40)), tmp_path / "in" / "1.parquet")
    pq.write_table(rows(40, 40, pa.array([7] * 40)), tmp_path / "in" / "2.parquet")
    place.run()
    found = place.out("parquet")
    assert found.schema.field("note").type == pa.string()
    assert found.num_rows >= 79  # an outlier may be suppressed
    assert {(row["row"] >= 40, row["note"]) for row in found.to_pylist()} == {(False, None), (True, "7")}


def test_rows_added_to_a_file_after_the_end_of_the_job_are_read(tmp_path: Path) -> None:
    place = Place(tmp_path, source="csv", path="in.csv", sink="parquet")
    text = "".join(f"{at},{at * 7 % 100},{at},\n" for at in range(80))
    lines = text.splitlines(keepends=True)
    (tmp_path / "in.csv").write_text("who,age,row,note\n" + "".join(lines[:40]))
    assert place.run().rows_in == 40
    assert place.run().rows_in == 40, "nothing new"
    with (tmp_path / "in.csv").open("a") as file:
        file.writelines(lines[40:])
    assert place.run().rows_in == 80
    assert sorted(place.out("parquet")["row"].to_pylist(), key=int) == [str(number) for number in range(80)]
