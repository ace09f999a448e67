"""The reference page of parameters is what the algorithms declare."""

from pathlib import Path

from click.testing import CliRunner

from castleguard.algorithms.lookup import built_in, find
from castleguard.cli import commands
from castleguard.config.parameter_page import COMMAND
from castleguard.privacy.parameter_fields import parameters_of

PINNED = Path(__file__).parents[3] / "docs" / "reference" / "parameters.md"


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    shown = CliRunner().invoke(commands, ["schema", "--parameters"])
    assert shown.exit_code == 0
    assert PINNED.read_text(encoding="utf-8") == shown.output, f"the page is out of date; regenerate it: {COMMAND}"


def test_every_parameter_stands_on_the_page() -> None:
    page = PINNED.read_text(encoding="utf-8")
    for name in built_in():
        assert f"## {name}\n" in page
        for each in parameters_of(find(name)):
            assert f"| `{each.name}`" in page
            assert each.declared.text in page
