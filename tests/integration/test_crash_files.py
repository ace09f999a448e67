"""Files to files, killed again and again: everything once, nothing twice, every group whole."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.crash import PRIVACY, SCHEMA, Victim, kills, make_rows, write_csv

pytestmark = [pytest.mark.compiled, pytest.mark.integration]

KILLS = kills(4)
ROWS = max(60_000, 15_000 * KILLS)
JOB = """
source: {{type: csv, path: in.csv, batch_rows: 2000}}
{schema}
{privacy}
sink: {{type: parquet, path: out/}}
checkpoint: {{path: state.db, every: 50ms}}
dead_letter: {{path: letters.jsonl}}
"""


def victim(folder: Path, mode: str) -> Victim:
    write_csv(folder / "in.csv", make_rows(ROWS))
    (folder / "job.yaml").write_text(JOB.format(schema=SCHEMA, privacy=PRIVACY[mode]))

    def published() -> pa.Table:
        return pa.concat_tables(pq.read_table(part) for part in sorted((folder / "out").glob("part-*.parquet")))

    return Victim(folder, published)


@pytest.mark.parametrize("mode", PRIVACY)
def test_a_job_over_files_that_is_killed_publishes_every_row_once(tmp_path: Path, mode: str) -> None:
    job = victim(tmp_path, mode)
    job.stop()
    assert job.run_and_kill(KILLS, seed=3) > KILLS // 4
    assert len(list((tmp_path / "out").iterdir())) > 3
    job.check(make_rows(ROWS), bad=ROWS // 20_000, rejects=mode == "castle")
