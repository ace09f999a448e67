"""Instructions that the kernels execute for a fixed workload, counted by callgrind: the same on any busy machine.

`--check` compares the counts with instructions.json and fails where one is more than 5 % higher; `--write` replaces
that file, which a commit does only with the reason in its message.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import castleguard as cg
from castleguard.kernels.native.library import levels, list_modules

RECORDED = Path(__file__).with_name("instructions.json")
TOLERANCE = 1.05
ROWS = 4_000
COLUMNS = 6
VALUES = 8


def run_workload() -> None:
    """Publish random rows with CASTLE, with and without l-diversity, and with Citadel."""
    random = np.random.default_rng(1)
    names = [f"q{number}" for number in range(COLUMNS)]
    table = pa.table({
        "person": np.arange(ROWS) % 1_500,
        **{name: random.integers(0, 1_000, ROWS) for name in names},
        "value": [str(value) for value in random.integers(0, VALUES, ROWS)],
    })  # fmt: skip
    schema = cg.Schema(
        person="person",
        quasi_identifiers=[cg.Numeric(name, lower=0, upper=1_000, step=10) for name in names],
        sensitive=[cg.Sensitive("value", values=[str(value) for value in range(VALUES)])],
    )
    policies = (cg.Castle(k=10, delay=1_000), cg.Castle(k=10, l=3, delay=1_000), cg.Citadel(k=10, l=3, delay=1_000))
    for policy in policies:
        stream = cg.Anonymiser(schema, policy, seed=1)
        stream.push(table)
        stream.flush(warn=False)


def count() -> dict[str, int]:
    """Instructions by kernel library, of a process that runs the workload."""
    with TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", sys.executable, __file__, "--run"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return count_by_library(profile.read_text())


def count_by_library(profile: str) -> dict[str, int]:
    """Add up the cost of each kernel library in callgrind's format, without the cost of what it calls."""
    kernels = {module.rpartition(".")[2] for module in list_modules()}
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    library, calling = "", False
    for line in profile.splitlines():
        found = re.match(r"c?ob=\((\d+)\)(?: (.*))?$", line)
        if found:
            if found[2]:
                names[found[1]] = Path(found[2]).name.partition("-")[0]
            if line.startswith("ob="):
                library = names[found[1]]
        elif line.startswith("calls="):
            calling = True  # the next line is the cost of the call
        elif library in kernels and re.match(r"[-+*\d]", line):
            if not calling:
                counts[library] += int(line.split()[1])
            calling = False
        elif re.match(r"[-+*\d]", line):
            calling = False
    return dict(sorted(counts.items()))


def main() -> None:
    """Count, and print, check or write the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--run", "--check", "--write"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args()
    if given.run:
        return run_workload()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: instructions are not counted", file=sys.stderr)
        return None
    run_workload()  # so that the libraries are built
    counts = count()
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    level = levels()[0]
    expected = recorded.get(level, {})
    for library, instructions in counts.items():
        ratio = f"  {instructions / expected[library]:.3f} of {RECORDED.name}" if library in expected else ""
        print(f"{library:15} {instructions:12,}{ratio}")
    if given.write:
        RECORDED.write_text(json.dumps({**recorded, level: counts}, indent=2) + "\n")
    grown = [library for library, most in expected.items() if counts.get(library, 0) > TOLERANCE * most]
    if given.check and grown:
        sys.exit(f"{', '.join(grown)}: more than {TOLERANCE - 1:.0%} above {RECORDED}")
    return None


if __name__ == "__main__":
    main()
