"""Files to files, killed repeatedly: every row exactly once, every group complete."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.crash import PORTION, PRIVACY, SCHEMA, Victim, kills, make_rows
from tests.ports import free_port

pytestmark = [pytest.mark.compiled, pytest.mark.integration]

KILLS = kills(4)
JOB = """
source: {{type: csv, path: in/, follow: true, batch_rows: 2000}}
{schema}
{privacy}
sink: {{type: parquet, path: out/}}
checkpoint: {{path: state.db, every: 50ms}}
dead_letter: {{path: letters.jsonl}}
metrics: {{port: {port}}}
"""


def victim(folder: Path, mode: str) -> Victim:
    (folder / "in").mkdir()
    port = free_port()
    (folder / "job.yaml").write_text(JOB.format(schema=SCHEMA, privacy=PRIVACY[mode], port=port))

    def feed(rows: list[dict[str, Any]]) -> None:
        """A file with one bad line, renamed when it is complete."""
        lines = [",".join(str(value) for value in row.values()) for row in rows]
        lines.insert(len(lines) // 2, "half a line")
        path = folder / "in" / f"{rows[0]['row']:09d}.csv.part"
        path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
        path.rename(path.with_suffix(""))

    def published() -> pa.Table:
        return pa.concat_tables(pq.read_table(part) for part in sorted((folder / "out").glob("part-*.parquet")))

    return Victim(folder, feed, published, port)


@pytest.mark.parametrize("mode", PRIVACY)
def test_killed_file_job_publishes_every_row_once(tmp_path: Path, mode: str) -> None:
    rows = make_rows(PORTION * (KILLS + 1))
    job = victim(tmp_path, mode)
    job.run_and_kill(KILLS, 3, rows)
    assert len(list((tmp_path / "out").iterdir())) > KILLS
    job.check(rows, bad=KILLS + 1, rejects=mode == "castle")
