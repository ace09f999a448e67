"""Check the prose of Python and Markdown files against the word list of CONTRIBUTING.md.

python -m tests.language FILE...          prints every finding; exit code 1 if it has any
python -m tests.language --count [PATH]   prints counts for folders or files; exit code 1 above LIMIT

Prose is comments, docstrings and other strings in Python, and all text outside code in Markdown. Names in `backticks`
are not checked. A comment allows a word, with a reason, from its own line to the next blank one:

    # language: allow <rule>: quoted from the paper
"""

import argparse
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

LIMIT = 0
"""Most findings in the whole tree (`make language`). Lower it when the count falls."""

ROOT = Path(__file__).parent.parent
TREE = ("src", "tests", "benchmarks", "examples", "docs", *sorted(path.name for path in ROOT.glob("*.md")))

# language: allow whoever nobody somebody whatever anew thereby: the list itself
ADVICE = {
    "whoever": "name the person or the component",
    "nobody": "name the subject",
    "somebody": "name the person or the component",
    "whatever": "write `any`, or name it",
    "anew": "write `again`",
    "thereby": "start a new sentence",
    "is-no": "write `is not a`",
    "of": "start with the subject",
}

_WORDS = "|".join(rule for rule in ADVICE if rule not in ("is-no", "of"))
# All capitals is a constant. "There is no" is plain English, and so are comparisons.
_COMPARED = r"longer|more|less|fewer|worse|better|\w+er\s+than"
_FINDING = re.compile(
    rf"(?P<word>\b(?i:{_WORDS})\b)"
    rf"|(?P<isno>(?<!here\s)\b(?:is|are|was|were)\s+no\s+(?!(?:{_COMPARED})\b)(?=[a-z]))"
    r"|(?P<of>\bOf\b(?=\s+\w))"
)
_ALLOW = re.compile(r"language: allow (?P<rules>[\w -]+?)(?:: *(?P<reason>\w.*))?$")
_NOT_PROSE = re.compile(r"``[^`]+``|`[^`]+`|\]\([^)\s]+\)|<[^>\s]+>")  # inline code, targets of links, addresses
_ESCAPE = re.compile(r"\\[nrt]")


class Finding(NamedTuple):
    """A word or a form that the list refuses."""

    line: int
    rule: str
    text: str


class _Block(NamedTuple):
    """A paragraph, a run of comment lines or a string: its physical lines and the number of the first."""

    first: int
    lines: list[str]


def check(path: Path) -> list[Finding]:
    """Findings in one file, in order."""
    source = path.read_text(encoding="utf-8").split("\n")
    found: list[Finding] = []
    allowed: list[set[str]] = []  # by line
    for number, line in enumerate(source, start=1):
        former = allowed[-1] if allowed and line.strip() else set()
        comment = _ALLOW.search(line.removesuffix("-->").rstrip())
        if comment and comment["reason"] is None:
            found.append(Finding(number, "allow", "give a reason: `language: allow <rule>: <reason>`"))
        allowed.append(former | set(comment["rules"].split()) if comment and comment["reason"] else former)
    for block in _markdown(source) if path.suffix == ".md" else _python(source):
        found += [finding for finding in _findings(block) if finding.rule not in allowed[block.first - 1]]
    return sorted(found)


def _findings(block: _Block) -> Iterator[Finding]:
    text = _ESCAPE.sub("  ", "\n".join(block.lines))
    text = _NOT_PROSE.sub(lambda code: re.sub(r"\S", "`", code[0]), text)
    for match in _FINDING.finditer(text):
        if match["word"] and match["word"].isupper():
            continue
        rule = match["word"].lower() if match["word"] else "is-no" if match["isno"] else "of"
        excerpt = " ".join(text[match.start() : match.end() + 30].split())
        yield Finding(block.first + text.count("\n", 0, match.start()), rule, excerpt)


def _markdown(source: list[str]) -> Iterator[_Block]:
    """Paragraphs outside code blocks."""
    block, fenced = _Block(1, []), False
    for number, line in enumerate([*source, ""], start=1):
        fence = line.lstrip().startswith("```")
        if fence or fenced or not line.strip():
            if block.lines:
                yield block
            block, fenced = _Block(number + 1, []), fenced != fence
        else:
            block.lines.append(line)


def _python(source: list[str]) -> Iterator[_Block]:
    """Runs of comments and runs of strings: what only line ends separate is read as one text."""
    run, run_kind = _Block(0, []), ""
    for kind, start, end in _spans(source):
        if kind == "line end":
            continue
        if kind != run_kind or start[0] > run.first + len(run.lines):
            if run.lines:
                yield run
            run, run_kind = _Block(start[0], []), kind
        if kind == "code":
            continue
        text = [source[number - 1] for number in range(start[0], end[0] + 1)]
        text[-1] = text[-1][: end[1]]
        text[0] = text[0][start[1] :]
        if kind == "comment":
            text[0] = text[0].lstrip("#:")
        if run.lines and start[0] < run.first + len(run.lines):  # a second string on the same line
            run.lines[-1] += " " + text.pop(0)
        run.lines.extend(text)
    if run.lines:
        yield run


_Place = tuple[int, int]


def _spans(source: list[str]) -> Iterator[tuple[str, _Place, _Place]]:
    """Kind, start and end of every token. An f-string is one string, as it was to Python 3.11."""
    depth, began = 0, (0, 0)
    kinds = {"COMMENT": "comment", "STRING": "string", "NL": "line end"}
    for token in tokenize.generate_tokens(iter([f"{line}\n" for line in source]).__next__):
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            began = token.start if depth == 0 else began
            depth += 1
        elif name == "FSTRING_END":
            depth -= 1
            if depth == 0:
                yield "string", began, token.end
        elif depth == 0:
            yield kinds.get(name, "code"), token.start, token.end


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in (".py", ".md"))
        elif path.suffix in (".py", ".md"):
            yield path


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.language", description="Check prose against a word list.")
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; with --count, the whole tree by default")
    parser.add_argument("--count", action="store_true", help=f"print counts only, and fail above {LIMIT}")
    given = parser.parse_args(arguments)
    paths = given.paths or ([ROOT / name for name in TREE] if given.count else [])
    found = [(path, finding) for path in _files(paths) for finding in check(path)]
    if given.count:
        for rule, count in Counter(finding.rule for _, finding in found).most_common():
            sys.stdout.write(f"{count:6}  {rule}\n")
        sys.stdout.write(f"{len(found):6}  in all (limit {LIMIT})\n")
        return 1 if len(found) > LIMIT else 0
    for path, finding in found:
        advice = ADVICE.get(finding.rule)
        sys.stdout.write(f"{path}:{finding.line}  {finding.text}" + (f"  ({advice})\n" if advice else "\n"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
