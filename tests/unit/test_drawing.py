"""Figures are written completely or not at all, and lines differ in more than colour."""

import io
from pathlib import Path

import pytest

from castleguard.drawing import LINES, canvas

pytest.importorskip("matplotlib", reason="pictures need matplotlib")


def test_figure_is_a_png_and_its_folder_is_created(tmp_path: Path) -> None:
    path = tmp_path / "new" / "picture.png"
    with canvas(path, width=2, height=2) as figure:
        figure.subplots().plot([0, 1], [0, 1], **LINES[0])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_equal_figures_are_equal_bytes() -> None:
    both = io.BytesIO(), io.BytesIO()
    for target in both:
        with canvas(target, width=2, height=2) as figure:
            figure.subplots().plot([0, 1], [0, 1])
    assert both[0].getvalue() == both[1].getvalue()


def test_nothing_is_written_when_drawing_fails(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    with pytest.raises(RuntimeError), canvas(path, width=2, height=2):
        raise RuntimeError
    assert not path.exists()


def test_no_two_lines_share_a_dash_or_a_marker() -> None:
    assert len({str(line["linestyle"]) for line in LINES}) == len(LINES)
    assert len({line["marker"] for line in LINES}) == len(LINES)
