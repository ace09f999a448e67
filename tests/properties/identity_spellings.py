"""One identity in many spellings: types, texts and formats that all mean the same person or the same value."""

import datetime as dt
import random
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa

BLANKS = ("", " ", "\t", "\u00a0", "\u2003", "\u200b", "\ufeff", "\0", "\0\0\0", "\r\n", "\u3000", "\u2060", "\u00ad")


class Spelling(NamedTuple):
    """An array of one value, and what it is for messages of a test (made up, never from a real row)."""

    name: str
    array: pa.Array


def _texts(text: str) -> Iterator[Spelling]:
    """Text in every type that holds text or bytes."""
    raw = text.encode()
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield Spelling(str(kind), pa.array([text], kind))
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield Spelling(str(kind), pa.array([raw], kind))
    yield Spelling("dictionary", pa.array([text]).dictionary_encode())
    if len(raw) != 16:
        yield Spelling("fixed binary", pa.array([raw.ljust(24, b"\0")], pa.binary(max(24, len(raw)))))


def _disguised(text: str, draw: random.Random, *, fold: bool) -> str:
    """The same text as somebody else types it."""
    if draw.random() < 0.3:
        text = "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" and draw.random() < 0.5 else sign for sign in text)
    if fold and draw.random() < 0.5:
        text = "".join(sign.upper() if draw.random() < 0.5 else sign for sign in text)
    if draw.random() < 0.3:
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(("\u200b", "\ufeff", "\u2060", "\u00ad", "\u200d")) + text[at:]
    if " " in text:
        text = text.replace(" ", draw.choice((" ", "  ", "\u00a0", " \t ", "\u2009")))
    return draw.choice(BLANKS) + text + draw.choice(BLANKS)


def number_texts(number: int, draw: random.Random) -> Iterator[str]:
    sign, digits = ("-" if number < 0 else ""), str(abs(number))
    zeros = "0" * draw.randrange(4)
    yield f"{sign}{zeros}{digits}"
    yield f"{sign or draw.choice(('', '+'))}{zeros}{digits}.{'0' * draw.randrange(4)}"
    shift = draw.randrange(len(digits) + 1)
    yield f"{sign}{digits[: len(digits) - shift] or '0'}.{digits[len(digits) - shift :]}{draw.choice('eE')}+{shift:02d}"
    yield f"{sign}{digits}{'0' * shift}e-{shift}"
    if number == 0:
        yield f"-{zeros}0"
        yield f"0e{draw.randrange(9)}"


def numbers(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Whole numbers of any size."""
    number = draw.choice((0, draw.randrange(-99, 99), draw.randrange(-(10**9), 10**9), draw.randrange(-(2**63), 2**63)))
    number = draw.choice((number, number, 10 ** draw.randrange(30), draw.randrange(10**36)))
    for text in number_texts(number, draw):
        yield from _texts(_disguised(text, draw, fold=fold))
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
        if (-(2 ** (bits - 1)) if signed else 0) <= number < 2 ** (bits - signed):
            yield Spelling(str(kind), pa.array([number], kind))
            yield Spelling(f"dictionary of {kind}", pa.array([number], kind).dictionary_encode())
    for bits, kind, limit in ((16, pa.float16(), 2**11), (32, pa.float32(), 2**24), (64, pa.float64(), 2**53)):
        if abs(number) < limit:
            yield Spelling(str(kind), pa.array([np.dtype(f"f{bits // 8}").type(number)], kind))
    for scale in (0, 2):
        if abs(number) < 10 ** (38 - scale):
            yield Spelling("decimal128", pa.array([Decimal(number)], pa.decimal128(38, scale)))
        yield Spelling("decimal256", pa.array([Decimal(number)], pa.decimal256(76, scale + 20)))
    if number % 1000 == 0:
        rounded = pa.array([Decimal(number // 1000)], pa.decimal128(38, 0)) if abs(number) < 10**30 else None
        if rounded is not None:
            negative = pa.Array.from_buffers(pa.decimal128(38, -3), 1, rounded.buffers())
            yield Spelling("decimal of negative scale", negative)


def words(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Names and codes."""
    word = draw.choice(
        (
            f"user-{draw.randrange(10**6)}",
            f"K\u00f6ln {draw.randrange(10**6)}",
            "Ren\u00e9e \u00c5ngstr\u00f6m-" + "".join(draw.choices("abcdefgh\u00df\u0130\u0131\u03c3\u03a3", k=6)),
            "".join(draw.choices("abcxyz0123456789._-/#", k=draw.randrange(3, 20))) + "q",
            "\ufb01re \u2460" + "".join(draw.choices("\u00e9e\u0301o\u0308\u1e9b\u0323", k=5)) + "w",
        )
    )
    for _ in range(3):
        yield from _texts(_disguised(word, draw, fold=fold))
    yield from _texts(word)


def uuids(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """UUIDs of all versions, and some that look like numbers."""
    value = draw.getrandbits(128)
    if draw.random() < 0.2:
        value = int(draw.choice((f"{draw.randrange(10**12)}", f"{draw.randrange(10**9)}e{draw.randrange(1000)}")), 16)
    found = uuid.UUID(int=value, version=draw.choice((1, 3, 4, 5))) if draw.random() < 0.7 else uuid.UUID(int=value)
    text = str(found)
    for spelt in (text, found.hex, f"{{{text}}}", f"urn:uuid:{text}", text.upper(), found.hex.upper()):
        yield from _texts(_disguised(spelt, draw, fold=False))
    fixed = pa.array([found.bytes], pa.binary(16))
    yield Spelling("fixed binary of 16", fixed)
    yield Spelling("uuid", pa.ExtensionArray.from_storage(pa.uuid(), fixed))
    yield (
        Spelling("16 bytes", pa.array([found.bytes]))
        if found.variant == uuid.RFC_4122
        else Spelling("text", pa.array([text]))
    )


def instants(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Days and moments."""
    day = dt.date(1970, 1, 1) + dt.timedelta(days=draw.randrange(-30000, 40000))
    seconds, micros = (0, 0) if draw.random() < 0.5 else (draw.randrange(86400), draw.choice((0, 0, 500_000, 123)))
    moment = dt.datetime(day.year, day.month, day.day) + dt.timedelta(seconds=seconds, microseconds=micros)
    aware = moment.replace(tzinfo=dt.UTC)
    east = dt.timezone(dt.timedelta(minutes=draw.choice((60, -330, 845))))
    texts = [moment.isoformat(), moment.isoformat(" "), aware.isoformat(), aware.isoformat().replace("+00:00", "Z")]
    texts += [aware.astimezone(east).isoformat(), str(aware.astimezone(east)), moment.isoformat().replace(".", ",")]
    if (seconds, micros) == (0, 0):
        texts += [day.isoformat(), f"{day.isoformat()} 00:00", f"{day.isoformat()}T00:00:00.000000000Z"]
        yield Spelling("date32", pa.array([day], pa.date32()))
        yield Spelling("date64", pa.array([day], pa.date64()))
    for text in texts:
        yield from _texts(_disguised(text, draw, fold=False))
    for unit, fits in (("s", micros == 0), ("ms", micros % 1000 == 0), ("us", True), ("ns", True)):
        for zone in (None, "UTC", "America/New_York"):
            if fits:
                yield Spelling(
                    f"timestamp {unit} {zone}", pa.array([aware if zone else moment], pa.timestamp(unit, zone))
                )


def times(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Times of a day."""
    micros = draw.choice((0, 250_000))
    value = dt.time(draw.randrange(24), draw.randrange(60), draw.choice((0, draw.randrange(60))), micros)
    for text in (
        value.isoformat(),
        value.isoformat("microseconds"),
        *([value.isoformat("minutes")] * (value.second == micros == 0)),
    ):
        yield from _texts(_disguised(text, draw, fold=False))
    kinds = [pa.time32("ms"), pa.time64("us"), pa.time64("ns"), *([pa.time32("s")] * (micros == 0))]
    for kind in kinds:
        yield Spelling(str(kind), pa.array([value], kind))


def truths(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Booleans."""
    value = draw.random() < 0.5
    yield Spelling("bool", pa.array([value]))
    for text in (str(value), str(value).lower(), str(value).upper()):
        yield from _texts(_disguised(text, draw, fold=False))


FAMILIES: tuple[Callable[..., Iterator[Spelling]], ...] = (numbers, words, uuids, instants, times, truths)
