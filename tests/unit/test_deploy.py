"""Deployment examples use existing commands and options, and stop a job gracefully."""

import json
import re
from configparser import ConfigParser
from pathlib import Path

import click

from castleguard.cli import commands
from castleguard.cli.exit_codes import FAILED, INTERNAL_ERROR, WRONG_USAGE

FOLDER = Path(__file__).parents[2] / "examples" / "deploy"


def accepts(words: list[str]) -> bool:
    """Check that `castleguard` accepts these arguments; raises if it does not."""
    context = click.Context(commands)
    command = commands.get_command(context, words[0])
    assert command is not None
    with command.make_context(words[0], words[1:], parent=context):
        return True


def test_systemd_unit_runs_a_job_and_stops_it_gracefully() -> None:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read_string((FOLDER / "castleguard.service").read_text(encoding="utf-8"))
    service = unit["Service"]
    start = re.search(r"/bin/castleguard (run [^']*)'", service["ExecStart"])
    assert start is not None
    assert accepts(start[1].split())
    assert service["KillSignal"] == "SIGTERM"
    assert service["Restart"] == "on-failure"
    prevented = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert prevented == {FAILED, WRONG_USAGE, INTERNAL_ERROR}
    assert service["MemoryDenyWriteExecute"] == "no"  # kernels are compiled


def test_container_image_runs_a_job_as_an_unprivileged_user() -> None:
    lines = (FOLDER / "Containerfile").read_text(encoding="utf-8").splitlines()
    steps = dict(line.split(" ", 1) for line in lines if re.match(r"[A-Z]+ ", line))
    assert steps["STOPSIGNAL"] == "SIGTERM"
    assert steps["USER"] == "castleguard"
    assert json.loads(steps["ENTRYPOINT"]) == ["castleguard"]
    assert accepts(json.loads(steps["CMD"]))
