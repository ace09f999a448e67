"""`castleguard demo`: needs nothing, writes four files, and judges itself by what it wrote."""

from pathlib import Path

import pytest

from castleguard.cli import demo as demo_module
from castleguard.cli.demo_live import sparkline
from castleguard.config.schema_file import load_schema
from castleguard.testing.streams import visits_schema
from tests.unit.cli.conftest import Run


def test_the_demo_writes_its_files_and_verifies_them(run: Run, tmp_path: Path) -> None:
    shown = run("demo", "--rows", "1500", "--delay", "300", "--output", tmp_path / "deep" / "demo")
    assert shown.code == 0, shown.err
    assert "verified: " in shown.out
    assert "information loss" in shown.out
    written = {path.name for path in (tmp_path / "deep" / "demo").iterdir()}
    assert written >= {"visits.csv", "schema.yaml", "published.csv"}


def test_citadel_is_used_and_castle_loses_more_on_the_same_rows(run: Run, tmp_path: Path) -> None:
    shown = run("demo", "--rows", "6000", "--delay", "1000", "--seed", "1", "--output", tmp_path)
    assert shown.code == 0, shown.err
    assert "in each release by itself, at least 10 distinct persons" in " ".join(shown.out.split())
    _, _, lines = shown.out.partition("Information loss and promise")
    losses = {line.split()[0]: float(line.split()[1]) for line in lines.splitlines()[1:3]}
    assert list(losses) == ["Citadel", "CASTLE"]
    assert 0 < losses["Citadel"] < losses["CASTLE"] < 1
    said = next(line for line in shown.out.splitlines() if line.startswith("information loss"))
    assert float(said.split()[2]) == losses["Citadel"]


def test_the_picture_is_drawn_where_matplotlib_is(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert run("demo", "--rows", "1500", "--delay", "300", "--output", tmp_path).code == 0
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_one_line_says_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    shown = run("demo", "--rows", "1000", "--delay", "300", "--output", tmp_path)
    assert shown.code == 0
    assert "pip install 'castleguard[plot]'" in shown.out
    assert not (tmp_path / "picture.png").exists()


def test_a_violation_sets_the_exit_code(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anonymise = demo_module._anonymise

    def publish_twice(*arguments: object) -> object:
        history = anonymise(*arguments)  # type: ignore[arg-type]
        lines = (tmp_path / "published.csv").read_text(encoding="utf-8").splitlines()
        (tmp_path / "published.csv").write_text("\n".join([*lines, lines[-1]]), encoding="utf-8")
        return history

    monkeypatch.setattr(demo_module, "_anonymise", publish_twice)
    shown = run("demo", "--rows", "1000", "--delay", "300", "--output", tmp_path)
    assert shown.code == 1
    assert "VIOLATED: 1 rows published more than once" in shown.out


def test_a_stream_too_short_to_publish_is_verified_too(run: Run, tmp_path: Path) -> None:
    shown = run("demo", "--rows", "5", "--output", tmp_path)
    assert shown.code == 0, shown.err
    assert "verified: nothing was published" in shown.out


def test_the_schema_that_it_writes_is_the_one_it_used(run: Run, tmp_path: Path) -> None:
    run("demo", "--rows", "1000", "--delay", "300", "--output", tmp_path)
    assert load_schema(tmp_path / "schema.yaml").fingerprint() == visits_schema().fingerprint()


def test_a_folder_that_cannot_be_made_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    shown = run("demo", "--rows", "1000", "--output", tmp_path / "file" / "demo")
    assert shown.code == 1
    assert shown.err.startswith("castleguard: ")
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("values", "width", "drawn"),
    [([], 5, ""), ([0.0, 0.0], 5, "▁▁"), ([1.0, 1.0], 5, "██"), ([0.5, 1.0, 1.0, 1.0], 2, "▅█")],
)
def test_a_sparkline_has_at_most_its_width(values: list[float], width: int, drawn: str) -> None:
    assert sparkline(values, width) == drawn
