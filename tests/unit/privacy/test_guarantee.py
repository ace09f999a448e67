"""The statement names the promise and its limits."""

import castleguard as cg

SCHEMA = cg.Schema(
    person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=9)], sensitive=["job"], public=["note"]
)


def sentence(policy: cg.Castle, schema: cg.Schema = SCHEMA, seed: int | None = None) -> str:
    guarantee = cg.Anonymiser(schema, policy, seed=seed).guarantee()
    assert str(guarantee) == guarantee.sentence
    assert (guarantee.k, guarantee.l, guarantee.delay) == (policy.k, policy.l, policy.delay)
    return guarantee.sentence


def test_k_l_and_delay_are_promised() -> None:
    text = sentence(cg.Castle(k=7, l=3, delay=40, max_wait=30))
    assert "at least 7 distinct persons and at least 3 distinct values of job" in text
    assert "at every moment from its first publication" in text
    assert "no later than 40 arrivals after its own, and no later than 30 s" in text


def test_without_l_no_values_are_promised() -> None:
    assert "values" not in sentence(cg.Castle(k=7, delay=40))


def test_input_order_promises_less() -> None:
    text = sentence(cg.Castle(k=7, delay=40, order="input"))
    assert "at every moment" not in text
    assert "once the last row of each of its releases is out" in text


def test_without_a_person_column_the_statement_speaks_of_rows() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=SCHEMA.quasi_identifiers)
    assert "at least 7 rows, each counted as a different person" in sentence(cg.Castle(k=7, delay=40), schema)


def test_the_statement_names_its_limits() -> None:
    text = sentence(cg.Castle(k=7, delay=40))
    assert "Not promised: differential privacy" in text
    assert "outside the promise: note" in text
    assert "knows when a row arrived" in text


def test_with_reuse_off_k_persons_in_each_release_are_promised_and_no_more() -> None:
    text = sentence(cg.Castle(k=7, delay=40, reuse="off"))
    assert "Each release has them by itself" in text
    assert "beyond k persons in each release, against someone who knows when a row arrived" in text
    assert "Each release" not in sentence(cg.Castle(k=7, delay=40))


def test_the_statement_names_a_seed_and_paper_mode() -> None:
    assert "SEEDED" in sentence(cg.Castle(k=7, delay=40), seed=1)
    assert "SEEDED" not in sentence(cg.Castle(k=7, delay=40))
    assert "Paper mode" in sentence(cg.Castle(k=7, delay=40, mode="paper"))
