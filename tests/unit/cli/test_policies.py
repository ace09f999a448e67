"""The other algorithms on the command line, and noise at the edge."""

import re
from pathlib import Path

import pyarrow.csv
import pytest

import castleguard as cg
from tests.unit.cli.conftest import Run

SCHEMA = """
person: pid
quasi_identifiers:
  - {name: age, lower: 0, upper: 100, step: 5}
sensitive:
  - {name: job, values: [cook, nurse]}
"""


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rows = "".join(f"{n % 90},{n % 71 + 20},{('cook', 'nurse')[n % 2]}\n" for n in range(400))
    (tmp_path / "in.csv").write_text("pid,age,job\n" + rows + "1,odd,spy\n")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path


def options(folder: Path, *more: str) -> list[str | Path]:
    return [folder / "in.csv", "-o", folder / "out.csv", "--schema", folder / "schema.yaml", "--overwrite", *more]


def read(folder: Path, name: str = "out.csv") -> "pyarrow.Table":
    return pyarrow.csv.read_csv(folder / name)


def test_citadel_publishes_groups_that_stand_in_each_release(run: Run, people: Path) -> None:
    outcome = run("anonymise", *options(people, "--algorithm", "citadel", "--k", "5", "--l", "2", "--delay", "80"))
    assert outcome.code == 0
    words = " ".join(outcome.out.split())
    assert "in each release by itself, at least 5 distinct persons, of whom none has more than 1/5 of the rows" in words
    assert read(people).column_names == ["age_min", "age_max", "job"]
    assert read(people).num_rows == 400


def test_the_share_of_rows_in_earlier_boxes_is_shown(run: Run, people: Path) -> None:
    narrow = ("--algorithm", "citadel", "--k", "5", "--delay", "80", "--reuse", "narrow", "--seed", "1")
    outcome = run("anonymise", *options(people, *narrow))
    assert outcome.code == 0
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("published")]
    assert re.fullmatch(r"published +\d+  \d+ \(\d+%\) in earlier boxes", line)


def test_castleguard_publishes_noisy_rows_and_states_its_claim(run: Run, people: Path) -> None:
    more = ("--algorithm", "castleguard", "--k", "5", "--delay", "50", "--epsilon", "2", "--rows-per-person", "3")
    outcome = run("anonymise", *options(people, *more))
    assert outcome.code == 0
    assert "(6, 0)-differential privacy of all rows of one person" in outcome.out
    assert "over budget" in outcome.out
    assert read(people).column_names == ["age_min", "age_max", "job"]
    assert set(read(people)["job"].to_pylist()) <= {"cook", "nurse", ""}


def test_paper_mode_names_claims_it_does_not_make(run: Run, people: Path) -> None:
    more = ("--algorithm", "castleguard", "--k", "5", "--delay", "50", "--phi", "10", "--sample-rate", "0.5")
    outcome = run("anonymise", *options(people, *more, "--mode", "paper"))
    assert outcome.code == 0
    assert "NOT claimed" in outcome.out
    assert "sampled out" in outcome.out
    assert "age: invalid 1" in outcome.out


@pytest.mark.parametrize("window", [("--start-cells", "4"), ("--window", "200", "--window-unit", "rows")])
def test_sdgs_publishes_true_rows_of_a_public_grid(run: Run, people: Path, window: tuple[str, ...]) -> None:
    more = ("--algorithm", "sdgs", "--k", "5", "--sample-rate", "0.5", "--epsilon", "1", "--seed", "1")
    outcome = run("anonymise", *options(people, *more, *window))
    assert outcome.code == 0
    assert "differential privacy of all rows of one person in one window" in outcome.out
    assert "VOID" in outcome.out
    assert read(people).num_rows >= 5


def test_doca_publishes_noisy_means_under_the_columns_own_name(run: Run, people: Path) -> None:
    more = ("--algorithm", "doca", "--epsilon", "1", "--k", "10", "--delay", "100", "--rows-per-person", "2")
    outcome = run("anonymise", *options(people, *more))
    assert outcome.code == 0
    said = " ".join(outcome.out.split())
    assert "(1, 0)-differential privacy of all rows of one person in one window" in said
    assert "noisy mean of at least 10 rows of one window of 100" in said
    assert read(people).column_names == ["age", "job"]
    assert read(people).schema.field("age").type == "double"


def test_doca_as_printed_says_that_it_is_not_private(run: Run, people: Path) -> None:
    more = ("--algorithm", "doca", "--mode", "paper", "--epsilon", "1", "--delay", "100", "--sensitivity", "150")
    outcome = run("anonymise", *options(people, *more, "--max-clusters", "5", "--loss-window", "10"))
    assert outcome.code == 0
    assert "NO differential privacy" in outcome.out
    assert read(people).num_rows == 400


@pytest.mark.parametrize(
    "more",
    [
        ("--l", "2", "--diversity", "entropy"),
        ("--l", "2", "--diversity", "recursive", "--c", "3"),
        ("--t", "0.4", "--distance", "ordered", "--burn-in", "10"),
    ],
)
def test_more_criteria_can_be_asked_for(run: Run, people: Path, more: tuple[str, ...]) -> None:
    outcome = run("anonymise", *options(people, "--k", "5", "--delay", "50", *more))
    assert outcome.code == 0
    assert "At each release the values of job" in " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--k", "5"), "--delay is missing: castle has no default for it"),
        (("--delay", "5"), "--k is missing: castle has no default for it"),
        (("--k", "5", "--delay", "9", "--phi", "3"), "castle has no option --phi"),
        (("--k", "5", "--delay", "9", "--distance", "equal"), "--distance needs --t"),
        (("--algorithm", "sdgs", "--k", "5", "--epsilon", "1"), "--sample-rate is missing"),
        (
            ("--algorithm", "sdgs", "--k", "5", "--epsilon", "1", "--sample-rate", "0.5"),
            "a file is one window, and the grid of sdgs starts as one box",
        ),
        (
            ("--algorithm", "sdgs", "--k", "5", "--epsilon", "1", "--sample-rate", "0.5", "--delay", "9",
             "--start-cells", "4"),
            "sdgs has no option --delay",
        ),
        (("--algorithm", "doca", "--delay", "9"), "--epsilon is missing: doca has no default for it"),
        (("--algorithm", "doca", "--epsilon", "1", "--delay", "9", "--l", "2"), "doca has no option --l"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_named(run: Run, people: Path, more: tuple[str, ...], message: str) -> None:
    outcome = run("anonymise", *options(people, *more))
    assert outcome.code == 2
    assert message in outcome.err
    assert not (people / "out.csv").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--k", "5", "--delay", "9", "--reuse", "narrow"), "reuse must be 'paper' or 'off', got 'narrow'"),
        (
            ("--algorithm", "citadel", "--k", "5", "--delay", "9", "--reuse", "paper"),
            "reuse must be 'off' or 'narrow', got 'paper'",
        ),
        (
            ("--algorithm", "citadel", "--k", "5", "--delay", "9", "--order", "arrival"),
            "order='arrival' reveals which row is whose",
        ),
        (("--algorithm", "castleguard", "--k", "5", "--delay", "9"), "give either epsilon (for the whole row) or phi"),
        (
            ("--algorithm", "sdgs", "--k", "5", "--epsilon", "1", "--sample-rate", "1", "--start-cells", "4"),
            "sample_rate 1 keeps every row",
        ),
        (
            ("--algorithm", "sdgs", "--k", "5", "--epsilon", "1", "--sample-rate", "0.9", "--start-cells", "4"),
            "epsilon must be at least -ln(1 - sample_rate) = 2.30259",
        ),
        (("--algorithm", "doca", "--epsilon", "1", "--delay", "9"), "strict DOCA needs k"),
        (
            ("--algorithm", "doca", "--epsilon", "0", "--k", "2", "--delay", "9"),
            "epsilon must be a number above 0, got 0",
        ),
        (
            ("--algorithm", "doca", "--epsilon", "1", "--k", "2", "--delay", "9", "--numbers", "interval"),
            "DOCA publishes numbers, not ranges",
        ),
    ],
)
def test_parameters_that_cannot_work_get_one_sentence(
    run: Run, people: Path, more: tuple[str, ...], message: str
) -> None:
    outcome = run("anonymise", *options(people, *more))
    assert outcome.code == 1
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_rows_can_be_randomised_at_the_edge_and_collected(run: Run, people: Path) -> None:
    outcome = run("randomise", *options(people, "--epsilon", "3", "--weight", "job=2"))
    assert outcome.code == 0
    assert "(3, 0)-differential privacy of one row" in outcome.out
    noisy = read(people)
    assert noisy.column_names == ["pid", "age", "job"]
    assert noisy.num_rows == 401
    assert set(noisy["age"].to_pylist()) <= set(range(0, 101, 5))
    (people / "in.csv").write_bytes((people / "out.csv").read_bytes())
    more = ("--algorithm", "castleguard", "--k", "5", "--delay", "50", "--epsilon", "3", "--noise", "edge")
    outcome = run("anonymise", *options(people, *more))
    assert outcome.code == 0
    assert "declared to arrive randomised" in outcome.out


def test_randomise_is_quiet_if_asked_and_repeatable_with_a_seed(run: Run, people: Path) -> None:
    found = set()
    for _ in range(2):
        outcome = run("randomise", *options(people, "--phi", "1", "--seed", "5", "-q"))
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
        found.add((people / "out.csv").read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ((), 1, "give either epsilon"),
        (("--epsilon", "1", "--weight", "job"), 2, "--weight must have the form age=2, got job"),
        (
            ("--epsilon", "1", "--weight", "wage=2"),
            1,
            "weights names an unknown column 'wage'; the columns are age",
        ),
    ],
)
def test_randomise_names_bad_options(run: Run, people: Path, more: tuple[str, ...], code: int, message: str) -> None:
    outcome = run("randomise", *options(people, *more))
    assert outcome.code == code
    assert message in outcome.err


def made(*more: str) -> object:
    """The policy that options make, as `anonymise` does."""
    from castleguard.cli.anonymise import anonymise
    from castleguard.cli.policy_options import make_policy

    context = anonymise.make_context("anonymise", ["in.csv", "-o", "out.csv", "--schema", "s.yaml", *more])
    own = (
        "input",
        "output",
        "schema_file",
        "csv_pairs",
        "numbers",
        "formulas",
        "seed",
        "overwrite",
        "quiet",
        "algorithm",
    )
    given = {name: value for name, value in context.params.items() if name not in own}
    return make_policy(context.params["algorithm"], given)


@pytest.mark.parametrize(
    ("more", "policy"),
    [
        (("--k", "5", "--delay", "9", "--max-wait", "2m"), cg.Castle(k=5, delay=9, max_wait=120)),
        (
            ("--algorithm", "citadel", "--k", "5", "--delay", "9", "--reuse", "narrow", "--slack", "0.5"),
            cg.Citadel(k=5, delay=9, reuse="narrow", slack=0.5),
        ),
        (("--k", "5", "--delay", "9", "--reuse", "paper"), cg.Castle(k=5, delay=9, reuse="paper")),
        (("--k", "5", "--delay", "9", "--max-wait", "1.5"), cg.Castle(k=5, delay=9, max_wait=1.5)),
        (
            ("--k", "5", "--delay", "9", "--t", "0.3", "--reference", "window", "--reference-window", "7"),
            cg.Castle(k=5, delay=9, closeness=cg.Closeness(t=0.3, reference="window", window=7)),
        ),
        (
            ("--algorithm", "castleguard", "--k", "5", "--delay", "9", "--epsilon", "2", "--weights", "age=2,job=0.5"),
            cg.Castleguard(k=5, delay=9, epsilon=2, weights={"age": 2, "job": 0.5}),
        ),
        (
            ("--algorithm", "doca", "--mode", "paper", "--delay", "9", "--epsilon", "2", "--sensitivity", "age=2"),
            cg.Doca(mode="paper", delay=9, epsilon=2, sensitivity={"age": 2}),
        ),
        (
            ("--algorithm", "doca", "--mode", "paper", "--delay", "9", "--epsilon", "2", "--sensitivity", "3"),
            cg.Doca(mode="paper", delay=9, epsilon=2, sensitivity=3),
        ),
        (
            ("--algorithm", "sdgs", "--k", "5", "--sample-rate", "0.5", "--epsilon", "1", "--window", "1h",
             "--no-adapt"),
            cg.Sdgs(k=5, sample_rate=0.5, epsilon=1, window=3600, adapt=False),
        ),
        (
            ("--algorithm", "sdgs", "--k", "5", "--sample-rate", "0.5", "--epsilon", "1", "--window", "50",
             "--window-unit", "rows"),
            cg.Sdgs(k=5, sample_rate=0.5, epsilon=1, window=50, window_unit="rows"),
        ),
    ],
)  # fmt: skip
def test_every_kind_of_parameter_has_an_option(more: tuple[str, ...], policy: object) -> None:
    assert made(*more) == policy


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--max-wait soon", "must be a duration such as 500ms"),
        ("--weights age", "must have the form age=2,job=1, got age"),
        ("--weights age=much", "'much' is not a number"),
        ("--admission le", "--admission needs --tie-break, --containment, --representatives and --merge"),
    ],
)
def test_values_that_cannot_be_read_are_named(run: Run, people: Path, more: str, message: str) -> None:
    outcome = run("anonymise", *options(people, "--k", "5", "--delay", "9", *more.split()))
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize("command", ["anonymise", "audit", "sweep", "audit dp"])
def test_every_parameter_of_every_algorithm_is_an_option(run: Run, command: str) -> None:
    from castleguard.algorithms.lookup import built_in, find
    from castleguard.algorithms.single_parameters import singles_of

    shown = run(*command.split(), "--help").out
    for name in built_in():
        if find(name).several_sites:
            continue
        for single in singles_of(find(name)).values():
            listed = f"  {single.option} " in shown or (command == "sweep" and single.type == "shares")
            assert listed, single.name
