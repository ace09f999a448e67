"""Job files: what they become, and errors that a newcomer understands."""

import base64
import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from castleguard.algorithms.castle.policy import PAPER, Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.lookup import find, names
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.config.job_file import KEYS, Options, load_job
from castleguard.config.job_model import Checkpoint, DeadLetter, JobFile, Metrics
from castleguard.errors import ConfigError
from castleguard.privacy.closeness import Closeness
from tests.unit.fake_connectors import BrokerOptions, FileOptions, Offered, Tls

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "job.md"
PUBLIC = Closeness(t=0.3, reference="public", public={"illness": {"flu": 0.5, None: 0.5}})
KEY = base64.b64encode(bytes(range(32))).decode()
ENVIRON = {"KEY": KEY, "PASSWORD": "hunter2!", "FOLDER": "/somewhere/secret", "K": "12", "WORD": "castle"}
SCHEMA = """\
schema:
  person: pid
  quasi_identifiers:
    - {name: age, lower: 0, upper: 100}
  sensitive: [{name: illness, values: [flu, cold]}]
"""
WHOLE = f"""\
name: trips-2026
source: {{type: csv, path: in/*.csv, follow: true}}
{SCHEMA}
privacy: {{algorithm: castle, k: 10, l: 2, delay: 1000, max_wait: 1.5m}}
sink: {{type: parquet, path: out/}}
checkpoint: {{path: state/job.db, every: 500ms, key: "${{KEY}}"}}
dead_letter: {{path: rejects.jsonl, max_share: 0.05}}
metrics: {{port: 9464}}
numbers: interval
"""


def load(folder: Path, text: str, offered: Mapping[str, Options] | None = None) -> JobFile:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return load_job(path, offered or Offered(), environ=ENVIRON)


def problems(folder: Path, text: str) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def job(*, privacy: str = "{algorithm: castle, k: 10, delay: 100}", **sections: str) -> str:
    """A file with a section in another way, or with one more."""
    chosen = {"source": "{type: csv, path: in.csv}", "sink": "{type: parquet, path: out}", **sections}
    return SCHEMA + f"privacy: {privacy}\n" + "".join(f"{key}: {value}\n" for key, value in chosen.items() if value)


def test_a_whole_file(tmp_path: Path) -> None:
    found = load(tmp_path, WHOLE)
    assert found.name == "trips-2026"
    assert (found.source.type, found.source.options) == ("csv", FileOptions(path=tmp_path / "in/*.csv", follow=True))
    assert found.schema.columns == ("pid", "age", "illness")
    assert found.policy == Castle(k=10, l=2, delay=1000, max_wait=90.0)
    assert found.sink.options == FileOptions(path=tmp_path / "out")
    assert found.checkpoint is not None
    assert (found.checkpoint.path, found.checkpoint.every) == (tmp_path / "state/job.db", 0.5)
    assert found.checkpoint.key_bytes() == bytes(range(32))
    assert found.dead_letter is not None
    assert (found.dead_letter.path, found.dead_letter.max_share) == (tmp_path / "rejects.jsonl", 0.05)
    assert found.metrics is not None
    assert (found.metrics.host, found.metrics.port) == ("127.0.0.1", 9464)
    assert found.numbers == "interval"
    assert (found.folder, found.where("privacy")) == (tmp_path, f"{tmp_path}/job.yaml:9")


def test_optional_sections_may_be_absent(tmp_path: Path) -> None:
    found = load(tmp_path, job())
    assert found.name == "job"
    assert (found.checkpoint, found.dead_letter, found.metrics, found.numbers) == (None, None, None, None)


def test_a_job_never_changes(tmp_path: Path) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load(tmp_path, job()).name = "x"  # type: ignore[misc]


@pytest.mark.parametrize(("stem", "name"), [("My Trips (1)", "my-trips-1"), ("trips", "trips"), ("---", "job")])
def test_the_name_of_a_job_is_that_of_its_file(tmp_path: Path, stem: str, name: str) -> None:
    (tmp_path / f"{stem}.yaml").write_text(job(), encoding="utf-8")
    assert load_job(tmp_path / f"{stem}.yaml", Offered()).name == name


def test_a_schema_may_be_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles" / "sex.csv").write_text("f;*\nm;*\n")
    schema = "person: null\nquasi_identifiers:\n  - {name: sex, hierarchy: sex.csv}\n"
    (tmp_path / "roles" / "schema.yaml").write_text(schema)
    text = job().replace(SCHEMA, "schema: {file: roles/schema.yaml}\n")
    assert load(tmp_path, text).schema.columns == ("sex",)
    (tmp_path / "roles" / "schema.yaml").write_text(schema.replace("hierarchy", "hierachy"))
    assert problems(tmp_path, text + "nme: x\n") == [
        "job.yaml:5  nme is not a known key; did you mean name?",
        "roles/schema.yaml:3  quasi_identifiers[0].hierachy is not a known key; did you mean hierarchy?",
    ]


@pytest.mark.parametrize(
    ("privacy", "policy"),
    [
        ("{algorithm: castle, k: 5, delay: 50, reuse: off}", None),
        ("{algorithm: castle, k: 5, delay: 50, reuse: 'off'}", Castle(k=5, delay=50, reuse="off")),
        ("{algorithm: castleguard, k: 5, delay: 50, epsilon: 2, rows_per_person: 3, window: 1h}",
         Castleguard(k=5, delay=50, epsilon=2, rows_per_person=3, window=3600)),
        ("{algorithm: castleguard, k: 5, delay: 50, epsilon: 2.5, weights: {age: 2}}",
         Castleguard(k=5, delay=50, epsilon=2.5, weights={"age": 2})),
        ("{algorithm: sdgs, k: 20, sample_rate: 0.1, epsilon: 1, window: 1000, window_unit: rows}",
         Sdgs(k=20, sample_rate=0.1, epsilon=1, window=1000, window_unit="rows")),
        ("{algorithm: doca, epsilon: 1, delay: 100, mode: paper, sensitivity: {age: 5}}",
         Doca(epsilon=1, delay=100, mode="paper", sensitivity={"age": 5})),
        ("{algorithm: castle, k: 5, delay: 50, closeness: {t: 0.3, distance: ordered}}",
         Castle(k=5, delay=50, closeness=Closeness(t=0.3, distance="ordered"))),
        ("{algorithm: castle, k: 5, delay: 50, closeness: {t: 0.3, reference: public, public: {illness: {flu: 0.5, "
         "null: 0.5}}}}", Castle(k=5, delay=50, closeness=PUBLIC)),
        ("{algorithm: castle, k: 5, delay: 50, reading: {tie_break: random, containment: interval, admission: lt,"
         " representatives: random, merge: paper}}", Castle(k=5, delay=50, reading=PAPER)),
        ('{algorithm: "${WORD}", k: "${K}", delay: 50}', Castle(k=12, delay=50)),
    ],
)  # fmt: skip
def test_the_parameters_are_those_of_the_policy(tmp_path: Path, privacy: str, policy: object) -> None:
    if policy is None:  # YAML reads off as false
        assert problems(tmp_path, job(privacy=privacy)) == [
            "job.yaml:6  privacy.reuse must be 'paper' or 'off', got False"
        ]
    else:
        assert load(tmp_path, job(privacy=privacy)).policy == policy


@pytest.mark.parametrize("algorithm", names())
def test_every_parameter_of_a_policy_can_be_written(algorithm: str) -> None:
    from castleguard.config.policy_section import policy_model

    model = policy_model(algorithm)
    assert model.names() == tuple(field.name for field in dataclasses.fields(find(algorithm)))


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ("{algorithm: castle, delay: 100}", "privacy.k is missing"),
        ("{algorithm: castle, k: 1, delay: 100}", "privacy.k must be a whole number of at least 2, got 1 (k=1"),
        ("{algorithm: castle, k: '10', delay: 100}", "privacy.k must be a whole number, got '10'"),
        ("{algorithm: castle, k: yes, delay: 100}", "privacy.k must be a whole number, got True"),
        ("{algorithm: castle, k: 10, delay: 5}", "privacy.delay must be at least k - 1, got delay=5 and k=10"),
        ("{algorithm: castle, k: 10, dely: 5, delay: 100}", "privacy.dely is not a known key; did you mean delay?"),
        ("{algorithm: castle, k: 10, delay: 100, phi: 5}",
         "privacy.phi is not a parameter of castle, only of castleguard: delete it"),
        ("{algorithm: castle, k: 10, delay: 100, epsilon: 5}",
         "privacy.epsilon is not a parameter of castle, only of castleguard and sdgs and doca: delete it"),
        ("{algorithm: castle, k: 10, delay: 100, max_wait: soon}", "privacy.max_wait must be a duration such as 500ms"),
        ("{algorithm: castle, k: 10, delay: 100, mode: x}", "privacy.mode must be 'strict' or 'paper', got 'x'"),
        ("{algorithm: castle, k: 10, delay: 100, closeness: 0.3}", "privacy.closeness must be a mapping, got 0.3"),
        ("{algorithm: castle, k: 10, delay: 100, closeness: {t: 3}}", "privacy.closeness.t must be a number above 0"),
        ("{algorithm: castle, k: 10, delay: 100, closeness: {tt: 3}}", "privacy.closeness.t is missing"),
        ("{algorithm: castel, k: 10}",
         "privacy.algorithm must be one of citadel, castle, castleguard, sdgs, doca, dcastle, got 'castel'; "
         "did you mean castle?"),
        ("{k: 10}", "privacy.algorithm is missing: one of citadel, castle, castleguard, sdgs, doca, dcastle"),
        ("castle", "privacy must be a mapping: {algorithm: castle, k: 10, delay: 1000}"),
        ("{algorithm: castleguard, k: 10, delay: 100}", "privacy cannot work: "),
        ("{algorithm: sdgs, k: 20, sample_rate: 0.1, epsilon: 1, window: 5s, window_unit: rows}",
         "privacy.window must be a whole number of rows"),
        ("{algorithm: doca, epsilon: 1, k: 5, delay: 100, weights: {height: 2}}", "privacy cannot work: "),
    ],
)  # fmt: skip
def test_a_wrong_policy_is_named_with_its_line(tmp_path: Path, privacy: str, message: str) -> None:
    lines = problems(tmp_path, job(privacy=privacy))
    assert any(line.startswith(f"job.yaml:6  {message}") for line in lines), lines


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"source": ""}, "1  source is missing"),
        ({"source": "{type: cvs, path: x}"}, "7  source.type 'cvs' is not a known type; did you mean csv?"),
        ({"source": "{path: x}"}, "7  source.type is missing: one of csv, parquet, kafka, stdio, nats"),
        ({"source": "{type: 5}"}, "7  source.type is not a known type; it must be text"),
        ({"source": "trips.csv"}, "7  source must be a mapping: {type: csv, path: ...}"),
        ({"source": "{type: stdio}"}, "7  source.type cannot be stdio, which is not a source"),
        ({"source": "{type: nats}"}, "7  source.type cannot be used: nats needs its client: pip install"),
        ({"source": "{type: csv}"}, "7  source.path is missing"),
        ({"source": "{type: csv, path: 5}"}, "7  source.path must be a path, got 5"),
        ({"source": "{type: csv, path: x, folow: true}"}, "7  source.folow is not a known key; did you mean follow?"),
        ({"source": "{type: csv, path: x, follow: 'true'}"}, "7  source.follow must be true or false, got 'true'"),
        ({"source": "{type: csv, path: x, batch_rows: 0}"}, "7  source.batch_rows must be at least 1, got 0"),
        ({"checkpoint": "~"}, "9  checkpoint must be a mapping; delete the key if you do not need it"),
        ({"checkpoint": "{every: 5s}"}, "9  checkpoint.path is missing"),
        ({"checkpoint": "{path: s, every: 0s}"}, "9  checkpoint.every must be above 0, got 0"),
        ({"checkpoint": "{path: s, key: abcdefgh}"}, "9  checkpoint.key must be 32 bytes in base64: create one"),
        ({"checkpoint": "{path: s, key: 12345678}"}, "9  checkpoint.key must be text"),
        ({"dead_letter": "{path: x, max_share: 5}"}, "9  dead_letter.max_share must be between 0 and 1, got 5"),
        ({"metrics": "{port: 99999}"}, "9  metrics.port must be between 0 and 65535, got 99999"),
        ({"checkpoint": "{path: s, <<: x}"}, "9  checkpoint.<< is not a known key; known here: path, every, key"),
        ({"checkpoint": "{path: s, <name>: x}"}, "9  checkpoint.<name> is not a known key; known here: path"),
        ({"metrics": "{port: web}"}, "9  metrics.port must be a whole number, got 'web'"),
        ({"name": "My Trips"}, "9  name must consist of lower-case letters, digits and hyphens"),
        ({"numbers": "both"}, "9  numbers must be bounds (two columns), interval (one text) or midpoint"),
        ({"confirmed": "false"}, "9  confirmed is false: check the guesses in this file, then set"),
        ({"checkpont": "{path: x}"}, "9  checkpont is not a known key; did you mean checkpoint?"),
        ({"schema2": "{}"}, "9  schema2 is not a known key; did you mean schema?"),
    ],
)  # fmt: skip
def test_a_wrong_section_is_named_with_its_line(tmp_path: Path, sections: dict[str, str], message: str) -> None:
    (line,) = problems(tmp_path, job(**sections))
    assert line.startswith(f"job.yaml:{message}")


@pytest.mark.parametrize("sections", [{"checkpoint": ""}, {"confirmed": "true"}])
def test_no_checkpoint_and_confirmed_guesses_are_accepted(tmp_path: Path, sections: dict[str, str]) -> None:
    load(tmp_path, job(**sections))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "job.yaml is empty"),
        ("[a]", "job.yaml:1  a job file must be a mapping with the keys source, schema, privacy, sink"),
        ("just text", "job.yaml:1  a job file must be a mapping"),
        ("a: [", "job.yaml:1  invalid YAML"),
        ("[" * 2000, "job.yaml is nested too deeply"),
        ("- " * 200 + "x", "job.yaml:1  the file is nested too deeply"),
        ("a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)),
         "job.yaml:"),
        ("a: {b: ${C}}", "job.yaml:1  invalid YAML: expected ',' or '}', but got '{'; inside {...} a"),
        ("a: !!timestamp foo", "job.yaml:1  invalid value"),
        ("a: !!int ''", "job.yaml:1  invalid value"),
        ("a: !!bool maybe", "job.yaml:1  invalid value"),
        ("a: !!binary aGVsbG8=", "job.yaml:1  invalid value: the type bytes is not supported"),
        ('a: "\\ud800"', "job.yaml:1  invalid value: it contains a lone surrogate"),
        ('"\\0": x', "job.yaml:1  invalid value: it contains a null character"),
    ],
)  # fmt: skip
def test_hostile_yaml_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    (line,) = problems(tmp_path, text)
    assert line.startswith(message)


def test_the_documented_file_is_one_and_every_key_is_documented(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (tmp_path / "education.csv").write_text("Junior;*\nSenior;*\n")
    example = page.partition("```yaml\n")[2].partition("```")[0].replace("CASTLEGUARD_KEY", "KEY")
    assert load(tmp_path, example).policy == Castle(k=10, l=2, delay=1000, max_wait=30)
    own = [field.name for part in (Checkpoint, DeadLetter, Metrics) for field in dataclasses.fields(part)]
    for key in (*KEYS, *own, *names()):
        assert f"`{key}`" in page


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = job(privacy="{algorithm: castle, k: x, kk: 2}", source="{type: csv, pth: x}", sink="{type: none}",
               checkpoint="{}", metrics="[]", name="${ABSENT}").replace("lower: 0", "lowr: 0")  # fmt: skip
    assert problems(tmp_path, text) == [
        "job.yaml:4  schema.quasi_identifiers[0].lowr is not a known key; did you mean lower?",
        "job.yaml:6  privacy.kk is not a known key; did you mean k?",
        "job.yaml:6  privacy.k must be a whole number, got 'x'",
        "job.yaml:6  privacy.delay is missing",
        "job.yaml:7  source.path is missing",
        "job.yaml:7  source.pth is not a known key; did you mean path?",
        "job.yaml:8  sink.type 'none' is not a known type; known here: csv, parquet, kafka, stdio, nats",
        "job.yaml:9  checkpoint.path is missing",
        "job.yaml:10  metrics must be a mapping; delete the key if you do not need it",
        "job.yaml:11  name needs the environment variable ABSENT, which is not set",
    ]


BROKER = "{type: kafka, servers: [a:1, b:2], topic: t, password: '${PASSWORD}', timeout: 5m, headers: {x: y}, " \
         "tls: {ca_file: ca.pem}, schema: s}"  # fmt: skip


def test_options_of_every_kind_reach_the_connector(tmp_path: Path) -> None:
    found = load(tmp_path, job(source=BROKER))
    assert found.source.options == BrokerOptions(
        servers=("a:1", "b:2"),
        topic="t",
        password="hunter2!",
        timeout=300.0,
        headers={"x": "y"},
        tls=Tls(ca_file=tmp_path / "ca.pem"),
        schema="s",
    )
    one = load(tmp_path, job(source="{type: kafka, servers: '${FOLDER}', topic: t}"))
    assert one.source.options.servers == "/somewhere/secret"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("servers: {}", "source.servers must be text or a list, got a mapping of 0"),
        ("headers: x", "source.headers must be a mapping, got 'x'"),
        ("headers: {x: 5}", "source.headers.x must be text"),
        ("tls: {ca_fil: x}", "source.tls.ca_fil is not a known key; did you mean ca_file?"),
        ("timeout: long", "source.timeout must be a duration such as"),
        ("password: 12345", "source.password must be text (in quotes if YAML reads it as another type), got ****"),
        ("format: xml", "source.format must be 'json' or 'csv', got 'xml'"),
    ],
)
def test_a_wrong_option_is_named_with_its_line(tmp_path: Path, options: str, message: str) -> None:
    lines = problems(tmp_path, job(source=f"{{type: kafka, servers: x, topic: t, {options}}}".replace(
        "servers: x, ", "" if "servers" in options else "servers: x, ")))  # fmt: skip
    assert any(line.startswith(f"job.yaml:7  {message}") for line in lines), lines


def test_nothing_that_came_from_the_environment_prints(tmp_path: Path) -> None:
    text = job(source=BROKER, sink="{type: parquet, path: '${FOLDER}'}", checkpoint="{path: s, key: '${KEY}'}")
    found = load(tmp_path, text)
    printed = " ".join([repr(found), repr(found.source), repr(found.sink), repr(found.checkpoint),
                        str(found.source.shown()), str(found.sink.shown()), repr(found.source.options)])  # fmt: skip
    for secret in ("hunter2", "somewhere", KEY):
        assert secret not in printed
    assert found.source.shown()["password"] == "****"
    assert found.sink.shown()["path"] == "****"
    assert found.mask("cannot open /somewhere/secret/x") == "cannot open ****/x"


@pytest.mark.parametrize(
    "section",
    [
        {"privacy": "{algorithm: castle, k: '${PASSWORD}', delay: 100}"},
        {"privacy": "{algorithm: '${PASSWORD}'}"},
        {"source": "{type: '${PASSWORD}'}"},
        {"source": "{type: csv, path: x, follow: '${PASSWORD}'}"},
        {"name": "'${PASSWORD}'"},
        {"numbers": "'${PASSWORD}'"},
        {"checkpoint": "{path: s, key: '${PASSWORD}'}"},
        {"metrics": "{port: '${PASSWORD}'}"},
        {"schema": "{file: '${PASSWORD}'}"},
    ],
)
def test_an_error_never_shows_values_from_the_environment(tmp_path: Path, section: dict[str, str]) -> None:
    text = job(**section)
    if "schema" in section:
        text = text.replace(SCHEMA, "")
    lines = problems(tmp_path, text)
    assert lines
    assert "hunter2" not in " ".join(lines)


def test_numbers_and_flags_may_come_from_the_environment(tmp_path: Path) -> None:
    environ = {"PORT": "9464", "YES": "true", "TIME": "2m", "SHARE": "0.5"}
    path = tmp_path / "job.yaml"
    path.write_text(job(
        source="{type: csv, path: x, follow: '${YES}'}", checkpoint="{path: s, every: '${TIME}'}",
        metrics="{port: '${PORT}'}", dead_letter="{path: x, max_share: '${SHARE}'}",
    ))  # fmt: skip
    found = load_job(path, Offered(), environ=environ)
    assert found.source.options.follow is True
    assert found.checkpoint is not None
    assert found.checkpoint.every == 120
    assert found.metrics is not None
    assert found.metrics.port == 9464
    assert found.dead_letter is not None
    assert found.dead_letter.max_share == 0.5


WORDS = st.sampled_from([
    "csv", "castle", "doca", "${K}", "${NO}", "$${", "5s", "yes", "~", "1", "-1", "0.5", ".nan", ".inf", "2020-01-01",
    "''", "x", "!!int x", "!!timestamp x", "!!set {a}", "&a b", "*a", "<<", "? x",
])  # fmt: skip
NAMES = st.sampled_from([
    "source", "sink", "schema", "privacy", "type", "path", "algorithm", "k", "delay", "closeness", "t", "person",
    "quasi_identifiers", "name", "lower", "upper", "hierarchy", "checkpoint", "key", "every", "weights", "window",
    "file", "metrics", "port", "public", "reference", "spark", "shards", "settings", "position", "x", "<<", "<entry>",
])  # fmt: skip
TREES = st.recursive(
    WORDS,
    lambda below: (
        st.lists(below, max_size=3).map(lambda parts: "[" + ", ".join(parts) + "]")
        | st.dictionaries(NAMES, below, max_size=4).map(
            lambda parts: "{" + ", ".join(f"{key}: {value}" for key, value in parts.items()) + "}"
        )
    ),
    max_leaves=20,
)
FILES = st.dictionaries(NAMES, TREES, max_size=6).map(lambda parts: "\n".join(f"{k}: {v}" for k, v in parts.items()))
SECTIONS = st.tuples(
    st.sampled_from(["source", "sink", "privacy", "checkpoint", "metrics", "name", "spark"]), TREES
).map(lambda part: job(**{part[0]: part[1]}))


@given(text=st.one_of(FILES, SECTIONS, st.text(max_size=200)))
@example(text=job(privacy="{algorithm: []}"))
@example(text=job(spark="{shards: 2, settings: {x: [1]}, position: 3}"))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_in_a_file_gives_a_job_or_clear_lines(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(ConfigError):
        load_job(path, Offered(), environ=ENVIRON)


@given(data=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_bytes_that_are_not_a_job_give_clear_lines(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "job.yaml").write_bytes(data)
    with pytest.raises(ConfigError):
        load_job(tmp_path / "job.yaml", Offered(), environ={})
