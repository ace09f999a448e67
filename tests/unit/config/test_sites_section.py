"""Jobs of several sites: what their file must say, and what is said of one that does not."""

from pathlib import Path

import pytest

from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.config.environment import Variables
from castleguard.config.job_file import load_job
from castleguard.config.job_model import JobFile
from castleguard.config.secrets import FromEnvironment
from castleguard.connectors.nats.nats_options import Access
from castleguard.errors import ConfigError
from tests.unit.config.test_job_file import ENVIRON, SCHEMA
from tests.unit.fake_connectors import Offered

SITES = 'sites: {names: [berlin, paris, rome], relay: {servers: "nats://relay:4222", timeout: 2s}, key: "${KEY}"}\n'
PRIVACY = "privacy: {algorithm: dcastle, k: 10, delay: 1000}\n"
CHECKPOINT = 'checkpoint: {path: "${SITE}.db"}\n'
ENDS = 'source: {type: csv, path: "in/${SITE}/*.csv"}\nsink: {type: parquet, path: "out/${SITE}"}\n'


def load(folder: Path, text: str, site: str | None = "paris") -> JobFile:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return load_job(path, Offered(), environ=ENVIRON, site=site, relay=lambda: Access)


def problems(folder: Path, text: str, site: str | None = "paris") -> list[str]:
    """The lines of the error, without the file and its lines."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, site)
    return [line.partition("  ")[2] for line in str(caught.value).splitlines()]


def job(sites: str = SITES, privacy: str = PRIVACY, checkpoint: str = CHECKPOINT) -> str:
    return ENDS + SCHEMA + privacy + checkpoint + sites


def test_a_job_of_sites_is_read_for_one_of_them(tmp_path: Path) -> None:
    found = load(tmp_path, job())
    assert found.site == "paris"
    assert found.sites is not None
    assert found.sites.names == ("berlin", "paris", "rome")
    assert found.sites.relay.options == Access(servers="nats://relay:4222", timeout=2.0)
    assert found.sites.key_bytes() == bytes(range(32))
    assert found.policy == Dcastle(k=10, delay=1000, sites=3)


def test_the_name_of_the_site_is_replaced_in_paths_and_not_secret(tmp_path: Path) -> None:
    found = load(tmp_path, job(), "rome")
    assert found.checkpoint is not None
    assert found.checkpoint.path == tmp_path / "rome.db"
    assert found.source.shown()["path"] == str(tmp_path / "in/rome/*.csv")
    assert found.variables.mask("rome and castle") == "rome and castle"


def test_a_text_with_the_site_and_a_secret_is_a_secret() -> None:
    variables = Variables({"WORD": "hush"}, {"SITE": "rome"})
    assert isinstance(variables.fill("${SITE}-${WORD}"), FromEnvironment)
    assert not isinstance(variables.fill("${SITE}"), FromEnvironment)
    assert variables.mask("rome-hush, rome, hush") == "****, rome, ****"


def test_without_a_site_the_variable_is_one_of_the_environment() -> None:
    variables = Variables({"SITE": "secret one"})
    assert isinstance(variables.fill("${SITE}"), FromEnvironment)


def test_a_job_of_sites_says_how_it_is_run(tmp_path: Path) -> None:
    (said,) = problems(tmp_path, job(), None)
    assert said == "sites needs the name of a site: run each site with `castleguard site JOB --name SITE`"


def check_reported(folder: Path, text: str, expected: str, site: str | None = "paris") -> None:
    # ${SITE} is not set without a site.
    said = [line for line in problems(folder, text, site) if "SITE" not in line]
    assert any(line.startswith(expected) for line in said), said
    assert all(secret not in line for line in said for secret in ENVIRON.values() if len(secret) > 6)


def test_missing_sites_are_reported(tmp_path: Path) -> None:
    expected = "sites is missing: dcastle is for several sites; use castle for a single one"
    check_reported(tmp_path, job(sites=""), expected, site=None)


def test_a_missing_checkpoint_is_reported(tmp_path: Path) -> None:
    expected = "checkpoint is missing: without one a site could publish rows twice after a crash"
    check_reported(tmp_path, job(checkpoint=""), expected)


def test_an_unknown_site_is_reported(tmp_path: Path) -> None:
    check_reported(tmp_path, job(), "sites.names does not have 'parsi'; did you mean paris?", site="parsi")


@pytest.mark.parametrize(
    ("privacy", "expected"),
    [
        ("algorithm: castle", "algorithm must be dcastle in a job with sites"),
        ("algorithm: dcastle, sites: 4", "sites differs from the number of sites.names (3): delete it"),
        (
            "algorithm: dcastle, mode: paper",
            "mode cannot be paper, which may publish fewer than k persons: use castleguard simulate",
        ),
    ],
)
def test_a_policy_that_sites_cannot_use_is_reported(tmp_path: Path, privacy: str, expected: str) -> None:
    check_reported(tmp_path, job(privacy=f"privacy: {{k: 10, delay: 1000, {privacy}}}\n"), f"privacy.{expected}")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("[berlin, paris, paris]", "be different, but 'paris' occurs twice"),
        ("[paris]", "list at least two sites: delete the sites section of a job with one site"),
        ("[berlin, paris, Rome]", "consist of lower-case letters, digits and hyphens, and must not be 'all'"),
        ("[berlin, paris, all]", "consist of lower-case letters, digits and hyphens, and must not be 'all'"),
    ],
)
def test_names_that_cannot_be_used_are_reported(tmp_path: Path, names: str, expected: str) -> None:
    text = job(SITES.replace("[berlin, paris, rome]", names))
    check_reported(tmp_path, text, f"sites.names must {expected}")


@pytest.mark.parametrize(
    ("sites", "expected"),
    [
        (
            SITES.replace("${KEY}", "${PASSWORD}"),
            "sites.key must be 32 bytes in base64: create one with `openssl rand -base64 32`",
        ),
        (SITES.replace("servers", "server"), "sites.relay.server is not a known key; did you mean servers?"),
        (SITES.replace("timeout: 2s", "stream: x"), "sites.relay.stream is not a known key"),
        (SITES.replace("names:", "name:"), "sites.name is not a known key; did you mean names?"),
        ("sites: [berlin, paris]\n", "sites must be a mapping: {names: [...], relay: {servers: ...}"),
        ('sites: {names: [paris, rome], relay: x, key: "${KEY}"}\n', "sites.relay must be a mapping"),
    ],
)
def test_a_mistake_in_the_section_is_reported(tmp_path: Path, sites: str, expected: str) -> None:
    check_reported(tmp_path, job(sites), expected)


def test_a_name_is_for_jobs_of_sites_alone(tmp_path: Path) -> None:
    text = job(sites="", privacy="privacy: {algorithm: castle, k: 10, delay: 1000}\n")
    assert problems(tmp_path, text) == ["sites is missing: --name applies to jobs with sites only"]


def test_nothing_of_a_job_prints_its_key(tmp_path: Path) -> None:
    found = load(tmp_path, job())
    assert ENVIRON["KEY"] not in repr(found.sites)
