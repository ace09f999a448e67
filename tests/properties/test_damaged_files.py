"""No damaged file makes the readers or the decoder crash, raise unexpectedly, or leak an undeclared value."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.patience import WHOLE_RUN
from tests.properties.damaged_files import KINDS, Kind
from tests.soak import effort

_CHILD_FILES = 2_500
_FILES = effort(2_000, 100_000)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused_or_read_and_never_crashes(kind: Kind, tmp_path: Path) -> None:
    files = _FILES // len(KINDS)
    found: Counter[str] = Counter()
    for first in range(0, files, _CHILD_FILES):
        count = min(_CHILD_FILES, files - first)
        child = subprocess.run(
            [sys.executable, "-m", "tests.properties.damaged_files", kind, str(first), str(count), str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=WHOLE_RUN,
            check=False,
        )
        assert child.returncode == 0, f"{(tmp_path / 'at').read_text()}: {child.returncode}\n{child.stderr}"
        assert not child.stderr
        result = json.loads(child.stdout)
        assert not result["failures"], "\n".join(result["failures"])
        found.update(result["found"])
    assert found.total() == files
    # Both cases occur: damage that is detected, and damage that only changes values.
    assert found["refused"] + found["empty"] > files // 100
    assert found["read"] + found["rejects"] > files // 100
