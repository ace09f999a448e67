"""Result pages in a folder: a picture per figure, a page per paper, and an overview of all papers.

    <paper>-<figure>.png   a drawn figure
    <paper>.md             the results of one paper
    <paper>.json           the same for the overview, so that papers can be run one by one
    README.md              all statements of all papers in this folder, in one table

Pages are written for whole papers only: a page with new and old figures would name the wrong versions and command.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

from castleguard.drawing import canvas
from castleguard.errors import InputError, OutputError, UsageError
from castleguard.judge.report import markdown
from castleguard.judge.report.pictures import have_matplotlib
from castleguard.lab.catalogue import PAPERS, heading, slug
from castleguard.lab.result import Claim, Result, Scale, Word
from castleguard.lab.running import Done
from castleguard.version import __version__

_LIBRARIES = ("numpy", "numba", "pyarrow", "scikit-learn", "matplotlib")
WORDS: tuple[Word, ...] = ("reproduced", "partly", "not reproduced", "not comparable")
_SHORT = 12  # rows of a table that need not be folded away
_MEANING = """\
Each statement of a paper's experiments is shown beside our finding, with a verdict given by a rule in the code:

- **reproduced**: found as stated, in the paper's own mode;
- **partly**: found in some of the settings, or by one of several readings, or too close to others to be told apart from
  them (*level with*: by less than two standard errors);
- **not reproduced**: something else was found; the page of the paper gives the reason, if it is known;
- **not comparable**: the figure cannot be what the paper says it is, or the setting is impossible.

The limits are our judgement; they are in the code beside each rule. Points of CASTLE are means of several runs, and a
difference counts beyond two standard errors; points of dCASTLE are single runs, and small differences there may be
chance. The strict modes are shown beside the printed ones. The pages have the settings, all points, pictures, the
command, the seed and the versions."""
_MADE = "*Written by `castleguard reproduce`; manual changes are overwritten.*"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Origin of a paper's results."""

    paper: str
    scale: Scale
    versions: dict[str, str]
    seconds: dict[str, float]
    """Seconds per experiment, by its figures."""


def facts_of(paper: str, scale: Scale, done: Sequence[Done]) -> Facts:
    """Facts of a run that has just ended."""
    seconds = {", ".join(each.experiment.figures): round(each.seconds, 1) for each in done}
    return Facts(paper=paper, scale=scale, versions=versions(), seconds=seconds)


def versions() -> dict[str, str]:
    """Versions that the figures depend on, besides data and seed."""
    found = {"castleguard": __version__, "Python": python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def require_matplotlib() -> None:
    """Raise UsageError if matplotlib is missing: before hours of work, not after."""
    if not have_matplotlib():
        raise UsageError("figures need matplotlib: pip install 'castleguard[plot]'")


def picture_name(paper: str, figure: str) -> str:
    """File name of a drawn figure."""
    return f"{paper}-{slug(figure)}.png"


def draw(folder: Path, paper: str, results: Sequence[Result]) -> list[Path]:
    """Draw every figure that has a picture."""
    made = []
    for result in results:
        if result.draw is not None:
            path = folder / picture_name(paper, result.figure)
            try:
                with canvas(path, width=result.size[0], height=result.size[1]) as figure:
                    result.draw(figure)
            except OSError as exc:
                raise OutputError(f"{path} cannot be written: {exc.strerror}") from exc
            made.append(path)
    return made


def write(folder: Path, facts: Facts, results: Sequence[Result]) -> None:
    """Write the page of a whole paper, and the overview again. The figures are drawn before."""
    page = _page(facts, results)
    stored = {
        "paper": facts.paper,
        "scale": asdict(facts.scale),
        "versions": facts.versions,
        "seconds": facts.seconds,
        "results": [_as_json(result) for result in results],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{facts.paper}.md").write_text(page, encoding="utf-8")
        text = json.dumps(stored, indent=1, ensure_ascii=False)
        (folder / f"{facts.paper}.json").write_text(text + "\n", encoding="utf-8")
        (folder / "README.md").write_text(overview(folder), encoding="utf-8")
    except OSError as exc:
        raise OutputError(f"{folder} cannot be written: {exc.strerror}") from exc


def overview(folder: Path) -> str:
    """Overview of all papers with results in the folder: their statements beside ours."""
    lines = ["# The papers' results, repeated", "", _MADE, ""]
    statements: list[tuple[str, ...]] = []
    counted = dict.fromkeys(WORDS, 0)
    hurried = False
    for paper in PAPERS:
        stored = _stored(folder / f"{paper}.json")
        if stored is None:
            continue
        hurried |= stored["scale"]["quick"]
        for result in stored["results"]:
            link = f"[{heading(result['figure'])}]({paper}.md#{_anchor(result)})"
            for claim in result["claims"]:
                counted[claim["verdict"]] += 1
                statements.append((paper, link, claim["paper"], claim["ours"], claim["verdict"]))
    lines += [_MEANING, "", tally(counted), ""]
    if hurried:
        lines += ["A quick run, with few points on few rows: not to be compared with the papers.", ""]
    lines += [*markdown.table(("paper", "figure", "it states", "here", "verdict"), statements)]
    lines += ["", "The pages: " + ", ".join(_page_links(folder)) + ".", ""]
    return "\n".join(lines)


def tally(counted: dict[Word, int]) -> str:
    """One sentence with the number of statements per verdict."""
    parts = ", ".join(f"{number} {word}" for word, number in counted.items())
    return f"{sum(counted.values())} statements: {parts}."


def count(results: Sequence[Result]) -> dict[Word, int]:
    """Number of statements per verdict."""
    counted = dict.fromkeys(WORDS, 0)
    for result in results:
        for claim in result.claims:
            counted[claim.verdict] += 1
    return counted


def command(paper: str, scale: Scale) -> str:
    """The command that repeats the results."""
    size = " --quick" * scale.quick + " --full" * scale.full
    return f"castleguard reproduce {paper} --seed {scale.seed}{size} --output FOLDER"


def _page(facts: Facts, results: Sequence[Result]) -> str:
    lines = [f"# {facts.paper}, repeated", "", _MADE, "", f"{PAPERS[facts.paper]}.", "", tally(count(results)), ""]
    if facts.scale.quick:
        lines += ["A quick run, with few points on few rows: not to be compared with the paper.", ""]
    lines += [f"    {command(facts.paper, facts.scale)}", ""]
    used = ", ".join(f"{name} {number}" for name, number in facts.versions.items())
    lines += [f"With {used}; {facts.scale.jobs} process{'es' * (facts.scale.jobs != 1)}.", ""]
    took = [(figures, f"{seconds:,.1f}") for figures, seconds in facts.seconds.items()]
    lines += markdown.table(("figures", "seconds"), took)
    for result in results:
        lines += ["", *_section(facts.paper, result)]
    return "\n".join(lines) + "\n"


def _section(paper: str, result: Result) -> list[str]:
    lines = [f"## {heading(result.figure)}: {result.title}", "", result.setting, ""]
    if result.draw is not None:
        lines += [f"![{heading(result.figure)}: {result.title}]({picture_name(paper, result.figure)})", ""]
    claims = [(claim.paper, _with_reason(claim), f"**{claim.verdict}**") for claim in result.claims]
    lines += markdown.table(("the paper", "here", "verdict"), claims)
    if result.rows:
        lines += ["", *_values(result)]
    if result.notes:
        lines += ["", *(f"- {note}" for note in result.notes)]
    return lines


def _values(result: Result) -> list[str]:
    """Table of figures; a long one is folded."""
    table = markdown.table(result.columns, result.rows)
    if len(result.rows) <= _SHORT:
        return table
    return ["<details>", f"<summary>All {len(result.rows)} points</summary>", "", *table, "", "</details>"]


def _with_reason(claim: Claim) -> str:
    return f"{claim.ours} {claim.reason}" if claim.reason else claim.ours


def _anchor(result: dict[str, Any]) -> str:
    """Anchor that renderers give to a result's heading."""
    kept = [letter for letter in f"{heading(result['figure'])}: {result['title']}".lower() if _stays(letter)]
    return "".join(kept).replace(" ", "-")


def _stays(letter: str) -> bool:
    return letter.isalnum() or letter in " -_"


def _as_json(result: Result) -> dict[str, Any]:
    """Data of a result: for the overview, and for further computation."""
    return {
        "figure": result.figure,
        "title": result.title,
        "setting": result.setting,
        "claims": [asdict(claim) for claim in result.claims],
        "columns": result.columns,
        "rows": result.rows,
        "notes": result.notes,
    }


def _stored(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise InputError(f"{path} is damaged; remove it, and run that paper again") from exc
    return found


def _page_links(folder: Path) -> list[str]:
    return [f"[{paper}]({paper}.md)" for paper in PAPERS if (folder / f"{paper}.json").exists()]
