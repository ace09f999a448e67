"""In any type, spelling, format or batch, the stream and its judge count one person once.

Pairs of spellings of one identity are compared in the decoder, the judge, files and the routes of shards. Counting two
persons as one is safe; counting one as two is not.
"""

import itertools
import json
import random
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import castleguard as cg
from castleguard.connectors.formats import Format, open_reader
from castleguard.connectors.jsonl import JsonLines
from castleguard.judge.reading.equality import person_codes, value_codes
from castleguard.schema.column import distinct
from castleguard.schema.decode import Decoder
from castleguard.schema.identities import hash_persons, hash_values
from castleguard.schema.table import to_table
from castleguard.shards.routing import HashRoute
from tests.properties.identity_spellings import FAMILIES, Spelling, number_texts
from tests.soak import effort

KEY = np.array([11, 12], dtype=np.uint64)
SCHEMA = cg.Schema(person=cg.Person("pid", kind="text"), quasi_identifiers=[cg.Numeric("age", lower=0, upper=100)])
PAIRS = effort(20_000, 400_000)
IDENTITIES = effort(60, 1000)


def identities(seed: int, *, fold: bool) -> list[list[Spelling]]:
    """Identities of all families, until there are enough of them and of pairs of spellings."""
    draw, pairs = random.Random(seed), 0
    found: list[list[Spelling]] = []
    while pairs < PAIRS or len(found) < IDENTITIES:
        spellings = list(draw.choice(FAMILIES)(draw, fold=fold))
        found.append(spellings)
        pairs += len(spellings) * (len(spellings) - 1) // 2
    return found


def column(array: pa.Array) -> pa.ChunkedArray:
    return to_table(pa.table({"v": array})).column("v")


@pytest.mark.soak
def test_no_person_counts_twice_in_any_pair_of_types_and_spellings() -> None:
    route = HashRoute(SCHEMA, shards=16)
    pairs = 0
    for spellings in identities(17, fold=True):
        seen: dict[tuple[int, int], str] = {}
        for name, array in spellings:
            values = column(array)
            found = distinct(values)
            decoded = Decoder(SCHEMA, key=KEY).decode(pa.table({"pid": values, "age": [30]})).rows.person
            plain = found.spread(hash_persons(found.values, KEY))
            if name != "fixed binary of 16":  # without a kind these are UUIDs, with kind="text" maybe text
                assert decoded.tolist() == plain.tolist(), name
            seen[int(plain[0]), int(route.shard_of(pa.table({"pid": values}))[0])] = name
        assert len(seen) == 1, sorted(seen.values())
        pairs += len(spellings) * (len(spellings) - 1) // 2
        judged = [person_codes(pa.chunked_array([joined])) for joined in by_type(spellings)]
        assert all(np.unique(codes).size == 1 for codes in judged)
    assert pairs >= PAIRS


@pytest.mark.soak
def test_no_value_counts_twice_in_any_pair_of_types_and_spellings() -> None:
    for spellings in identities(18, fold=False)[: effort(100, 4000)]:
        codes = set()
        for _, array in spellings:
            found = distinct(column(array))
            codes.add(int(found.spread(hash_values(found.values, KEY))[0]))
        assert len(codes) == 1, sorted({name for name, _ in spellings})
        assert all(np.unique(value_codes(pa.chunked_array([joined]))).size == 1 for joined in by_type(spellings))


def by_type(spellings: list[Spelling]) -> list[pa.Array]:
    """Spellings of one type as one array, each next to the usual spelling of its family if that is text."""
    plain = [column(array).combine_chunks() for _, array in spellings]
    arrays = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in plain]
    arrays = [array.storage if isinstance(array.type, pa.BaseExtensionType) else array for array in arrays]
    arrays.sort(key=lambda array: str(array.type))
    return [pa.concat_arrays(list(found)) for _, found in itertools.groupby(arrays, key=lambda array: array.type)]


@pytest.mark.soak
def test_the_judge_and_the_decoder_distinguish_the_same_persons() -> None:
    """Text of all families in one column: equal for the judge iff equal for the decoder."""
    texts = [
        array.cast(pa.large_string())
        for spellings in identities(19, fold=True)[: effort(300, 5000)]
        for name, array in spellings
        if name in ("string", "large_string")
    ]
    both = pa.concat_arrays(texts)
    decoded = hash_persons(both, KEY)
    judged = person_codes(pa.chunked_array([both]))
    together = set(zip(decoded.tolist(), judged.tolist(), strict=True))
    assert len(together) == np.unique(decoded).size == np.unique(judged).size


@pytest.mark.parametrize("seed", range(effort(4, 200)))
@pytest.mark.soak
def test_a_person_counts_once_in_all_formats_and_cuts_of_files(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    number = draw.choice(
        (0, 12, 2**53 + 1, 12345678901234567, 10**20, 123456789012345678901234567890, draw.randrange(10**17))
    )
    spelt = [text for text in number_texts(number, draw) if json_number(text)]
    lines = [f'{{"pid": {text}}}' for text in spelt] + [json.dumps({"pid": text}) for text in spelt]
    noise = [f'{{"pid": {draw.choice((1.5, 7, "true", "null", 2.0, 1e3))}}}' for _ in range(6)]
    files: list[tuple[Format, str]] = [("jsonl", "\n".join([*lines, *noise]) + "\n")]
    files += [("jsonl", line + "\n") for line in lines]
    files += [("csv", "\n".join(["pid", *spelt]) + "\n")]
    hashes: set[int] = set()
    for at, (format, text) in enumerate(files):
        path = tmp_path / f"{at}.{format}"
        path.write_text(text)
        for batch_rows in (1, 3, 1000):
            with closing(open_reader(path, ["pid"], format=format, batch_rows=batch_rows)) as reader:
                rows = pa.concat_arrays([batch.column(0).cast(pa.large_string()) for batch in reader])
            expected = len(spelt) * (2 if format == "jsonl" and at == 0 else 1) if at in (0, len(files) - 1) else 1
            hashes |= set(hash_persons(rows[:expected], KEY).tolist())
    block = JsonLines(["pid"])
    for chosen in ([line.encode() for line in lines[: len(spelt)]], [lines[0].encode()]):
        table = block.many(chosen)
        if table is not None:
            hashes |= set(hash_persons(table.column(0).combine_chunks(), KEY).tolist())
        for line in chosen:
            values = block.one(line)
            assert not isinstance(values, str)
            hashes |= set(hash_persons(pa.array(values, pa.string()), KEY).tolist())
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"pid": pa.array([str(number)])}), path)
    hashes |= set(hash_persons(pq.read_table(path).column(0).combine_chunks(), KEY).tolist())
    assert hashes == set(hash_persons(pa.array([str(number)]), KEY).tolist())


def json_number(text: str) -> bool:
    """Whether the text is a JSON number."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("seed", range(effort(6, 300)))
@pytest.mark.soak
def test_k_minus_one_persons_in_any_spelling_and_any_cut_publish_nothing(seed: int) -> None:
    """k - 1 persons, each in many spellings, and rows without a person: in any batches nothing is published."""
    draw = random.Random(seed)
    k = draw.randrange(2, 5)
    rows: list[pa.Table] = []
    for _ in range(k - 1):
        spellings = [s for s in draw.choice(FAMILIES)(draw) if s.name != "fixed binary of 16"]
        for _, array in draw.sample(spellings, min(8, len(spellings))):
            rows.append(pa.table({"pid": column(array), "age": [30]}))
    for missing in (
        pa.array([None], pa.string()),
        pa.array([float("nan")]),
        pa.array([2.0**60]),
        pa.array([0.5]),
        pa.array([" "]),
    ):
        rows += [pa.table({"pid": missing, "age": [30]})] * draw.randrange(4)
    draw.shuffle(rows)
    stream = cg.Anonymiser(SCHEMA, cg.Castle(k=k, delay=4 * k), seed=seed)
    published = sum(stream.push(row).num_rows for row in rows) + stream.flush().num_rows
    assert published == 0
    assert stream.report().gate_refused == 0
