"""Record what is published today, or look at one case.

python -m tests.golden.record               writes digests.json, the snapshots and the checkpoints
python -m tests.golden.record --kept        writes the snapshots and checkpoints only, with their digests
python -m tests.golden.record --kept NAME   writes those of this name only
python -m tests.golden.record --check       compares and writes nothing
python -m tests.golden.record --show 17     prints the columns, rows and books of case 17
"""

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from tests.golden.cases import COUNT, Case
from tests.golden.checkpoints import CHECKPOINTS
from tests.golden.outcomes import Digests, Outcome, digests_of
from tests.golden.snapshots import SNAPSHOTS, Kept
from tests.golden.surfaces import run_case

DIGESTS = Path(__file__).parent / "digests.json"

_PARTS = {
    "rows": "published values",
    "order": "the order of rows, or the call that returned them",
    "types": "names or types of columns",
    "books": "the books",
}


def outcome_of(number: int) -> Outcome:
    """Run one case."""
    with tempfile.TemporaryDirectory() as folder:
        return run_case(Case(number), Path(folder))


def recorded() -> dict[str, Any]:
    """The file of digests: a list of cases, and the snapshots and checkpoints by name."""
    found: dict[str, Any] = json.loads(DIGESTS.read_text(encoding="utf-8"))
    return found


def differing(entry: dict[str, Any], found: Digests) -> list[str]:
    """What of a case differs from its record, in words."""
    parts = [name for name in _PARTS if entry[name] != getattr(found, name)]
    if "rows" in parts and "order" in parts:
        parts.remove("order")  # other rows are never in the same order
    words = [_PARTS[name] for name in parts]
    if entry["count"] != found.count:
        words.append(f"{entry['count']} rows before, {found.count} now")
    return words


def check_case(entry: dict[str, Any]) -> str | None:
    """One line if a case differs from its record."""
    number = entry["case"]
    words = differing(entry, digests_of(outcome_of(number)))
    if not words:
        return None
    return (
        f"case {number} ({entry['about']}): {'; '.join(words)} differ. Compare the output of "
        f"`python -m tests.golden.record --show {number}` before and after the change"
    )


def check_kept(kept: Kept, entry: dict[str, Any]) -> str | None:
    """One line if a restored snapshot or checkpoint publishes other rows than before."""
    words = differing(entry, digests_of(kept.restore(kept.path.read_bytes())))
    if not words:
        return None
    return (
        f"{kept.path.name}: {'; '.join(words)} differ after its restore. Compare the output of "
        f"`python -m tests.golden.record --show {kept.path.name}` before and after the change"
    )


def _record_cases() -> list[dict[str, Any]]:
    return [
        {"case": number, **asdict(digests_of(outcome_of(number))), "about": Case(number).describe()}
        for number in range(COUNT)
    ]


def _record_kept(found: Iterable[Kept], known: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Write kept files, all or those with these names; the digests of all."""
    entries = {}
    for kept in found:
        if names and kept.name not in names:
            entries[kept.name] = known[kept.name]
            continue
        kept.path.parent.mkdir(exist_ok=True)
        kept.path.write_bytes(kept.make())
        entries[kept.name] = asdict(digests_of(kept.restore(kept.path.read_bytes())))
    return entries


def _record(cases: list[dict[str, Any]], names: list[str]) -> None:
    """Write the files and all digests, one entry per line."""
    known = recorded()
    sections = [f'"cases": [\n{_lines(json.dumps(entry, ensure_ascii=False) for entry in cases)}\n]']
    for section, kept in (("snapshots", SNAPSHOTS), ("checkpoints", CHECKPOINTS)):
        found = _record_kept(kept, known[section], names)
        entries = _lines(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in found.items())
        sections.append(f'"{section}": {{\n{entries}\n}}')
    DIGESTS.write_text(f"{{{_lines(sections)}}}\n", encoding="utf-8")


def _lines(entries: Iterable[str]) -> str:
    return ",\n".join(entries)


def _check() -> Iterable[str]:
    known = recorded()
    found = [check_case(entry) for entry in known["cases"]]
    found += [check_kept(kept, known["snapshots"][kept.name]) for kept in SNAPSHOTS]
    found += [check_kept(kept, known["checkpoints"][kept.name]) for kept in CHECKPOINTS]
    return [line for line in found if line is not None]


def _show(name: str) -> None:
    if name.isdigit():
        case = Case(int(name))
        _say(case.describe())
        _say(yaml.safe_dump({"schema": case.schema, "privacy": case.policy}, sort_keys=False))
        outcome = outcome_of(int(name))
    else:
        every: list[Kept] = [*SNAPSHOTS, *CHECKPOINTS]
        (kept,) = [kept for kept in every if kept.path.name == name]
        outcome = kept.restore(kept.path.read_bytes())
    for columns in outcome.columns:
        _say(f"columns  {columns}")
    for piece in outcome.pieces:
        _say(f"piece  {len(piece)} rows")
        for row in piece:
            _say(row)
    for books in outcome.books:
        _say(f"books  {json.dumps(books, sort_keys=True, default=str)}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record", description="Record published rows.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="compare with the record")
    choice.add_argument("--show", metavar="CASE", help="print one case, by number, or a kept file's rest, by file name")
    choice.add_argument("--kept", nargs="*", metavar="NAME", help="record snapshots and checkpoints only")
    given = parser.parse_args()
    logging.getLogger("castleguard").setLevel(logging.ERROR)
    if given.show is not None:
        _show(given.show)
        return
    began = time.perf_counter()
    if given.check:
        lines = list(_check())
        for line in lines:
            _say(line)
        counted = f"{COUNT} cases, {len(SNAPSHOTS)} snapshots and {len(CHECKPOINTS)} checkpoints"
        _say(f"{counted}, {len(lines)} differ, {time.perf_counter() - began:.0f} s")
        sys.exit(1 if lines else 0)
    _record(_record_cases() if given.kept is None else recorded()["cases"], given.kept or [])
    _say(f"recorded in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
