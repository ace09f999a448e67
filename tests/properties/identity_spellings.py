"""Many spellings of one identity: types, texts and formats of the same person or value."""

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
    """An array of one value, and its description for test messages (made up, never from a real row)."""

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
    """The same text, typed differently."""
    if draw.random() < 0.3:
        text = "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" and draw.random() < 0.5 else sign for sign in text)
    if "'" in text:
        text = text.replace("'", draw.choice("'\u2019\u2018\u02bc\u00b4`"))
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
    yield f"{sign or '+'} {zeros}{digits}"
    yield f"{digits}{draw.choice(('', ' '))}-" if sign else f"{digits}.0"
    yield f"{sign}{digits},{draw.choice(('0', '00', '0000'))}"
    if len(digits) > 3:
        mark = draw.choice((" ", "\u202f", "'", "\u2019"))
        yield sign + f"{abs(number):,}".replace(",", mark)
        yield f"{number:,}.00"
    if len(digits) > 6:
        yield f"{number:,}"
    if number == 0:
        yield f"-{zeros}0"
        yield f"0e{draw.randrange(9)}"


def numbers(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Whole numbers of any size."""
    number = draw.choice((0, draw.randrange(-99, 99), draw.randrange(-(10**9), 10**9), draw.randrange(-(2**63), 2**63)))
    yield from _number(draw.choice((number, number, 10 ** draw.randrange(30), draw.randrange(10**36))), draw, fold=fold)


def _number(number: int, draw: random.Random, *, fold: bool) -> Iterator[Spelling]:
    """One number in every type that holds it."""
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
            f"O'Neill-{draw.randrange(10**6)}",
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


def day_texts(day: dt.date, draw: random.Random) -> Iterator[str]:
    """A day as ISO 8601 and as people write it, without a time."""
    year, week, weekday = day.isocalendar()
    yield day.isoformat()
    yield day.isoformat().replace("-", "")
    yield f"{day.year:04d}-{day:%j}"
    yield draw.choice((f"{year:04d}-W{week:02d}-{weekday}", f"{year:04d}W{week:02d}{weekday}"))
    for mark in "-/._: ":
        yield f"{day.year:04d}{mark}{day.month}{mark}{day.day}"
        yield day.isoformat().replace("-", mark)
    yield f"{day.isoformat()}{draw.choice(('Z', '+00:00', ' UTC'))}"


def clock_texts(time: dt.time, draw: random.Random) -> Iterator[str]:
    """A time of day: in full, short, and with AM or PM."""
    part = f"{draw.choice('.,')}{time:%f}" if time.microsecond else draw.choice(("", ".0", ",000000000"))
    yield f"{time:%H:%M:%S}{part}"
    yield f"{time:%H%M%S}{part}"
    yield f"{time.hour}:{time:%M:%S}{part}"
    yield f"{time.hour % 12 or 12}:{time:%M:%S}{part}{draw.choice(('', ' '))}{time:%p}"
    if time.second == time.microsecond == 0:
        yield f"{time:%H:%M}"
        yield f"{time:%H%M}"
        yield f"{time.hour % 12 or 12}:{time:%M} {draw.choice(('am', 'a.m.') if time.hour < 12 else ('PM', 'p.m.'))}"
    if time == dt.time(time.hour):
        yield f"{time:%H}"


def instants(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Days, which are numbers too, and moments."""
    day = dt.date(1970, 1, 1) + dt.timedelta(days=draw.randrange(-30000, 40000))
    if draw.random() < 0.1:
        day = dt.date.fromordinal(draw.randrange(2, dt.date.max.toordinal() - 1))
    seconds, micros = (0, 0) if draw.random() < 0.5 else (draw.randrange(86400), draw.choice((0, 0, 500_000, 123)))
    moment = dt.datetime(day.year, day.month, day.day) + dt.timedelta(seconds=seconds, microseconds=micros)
    aware = moment.replace(tzinfo=dt.UTC)
    offset = draw.choice((60, -330, 845))
    east = aware.astimezone(dt.timezone(dt.timedelta(minutes=offset)))
    texts = [moment.isoformat(), moment.isoformat(" "), aware.isoformat(), aware.isoformat().replace("+00:00", "Z")]
    texts += [east.isoformat(), str(east), moment.isoformat().replace(".", ",")]
    texts += [f"{day_text}{draw.choice(('T', ' ', ', '))}{text}" for day_text, text in _moments(moment, draw)]
    texts += [f"{day_text} {text}{east:%z}" for day_text, text in _moments(east.replace(tzinfo=None), draw)]
    texts += [f"{east.isoformat()}[Europe/Paris]", f"{moment.isoformat()}Z[UTC]"]
    texts += [f"{east.date()} {east.time()} {draw.choice(('GMT', 'UTC'))}{east:%z}"]
    if (seconds, micros) == (0, 0):
        eve = day - dt.timedelta(days=1)
        texts += [f"{day.isoformat()} 00:00", f"{day.isoformat()}T00:00:00.000000000Z", *day_texts(day, draw)]
        texts += [f"{eve.isoformat()}T24:00:00", f"{eve.isoformat()} 24:00Z", f"{eve.isoformat()}T23:59:60Z"]
        texts += [f"{eve.isoformat().replace('-', '')}T24"]
        yield Spelling("date32", pa.array([day], pa.date32()))
        yield Spelling("date64", pa.array([day], pa.date64()))
        yield from _number(day.year * 10_000 + day.month * 100 + day.day, draw, fold=fold)
    for text in texts:
        yield from _texts(_disguised(text, draw, fold=False))
    for unit, fits in (("s", micros == 0), ("ms", micros % 1000 == 0), ("us", True), ("ns", 1700 < day.year < 2200)):
        for zone in (None, "UTC", "America/New_York"):
            if fits:
                yield Spelling(
                    f"timestamp {unit} {zone}", pa.array([aware if zone else moment], pa.timestamp(unit, zone))
                )


def _moments(moment: dt.datetime, draw: random.Random) -> Iterator[tuple[str, str]]:
    """Spellings of a day with spellings of a time, each at least once."""
    days = [text for text in day_texts(moment.date(), draw) if text[-1].isdigit() and "+" not in text]
    clocks = list(clock_texts(moment.time(), draw))
    for at in range(max(len(days), len(clocks))):
        yield days[at % len(days)], clocks[at % len(clocks)]


def times(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Times of a day."""
    micros = draw.choice((0, 250_000))
    value = dt.time(
        draw.randrange(24), draw.choice((0, draw.randrange(60))), draw.choice((0, draw.randrange(60))), micros
    )
    east = (dt.datetime.combine(dt.date(2000, 1, 1), value) + dt.timedelta(minutes=330)).time()
    texts = [value.isoformat(), value.isoformat("microseconds"), f"{value.isoformat()}Z", f"{east.isoformat()}+05:30"]
    for text in clock_texts(value, draw):
        texts += [f"T{text}", *([text] * (":" in text))]
    if value == dt.time():
        texts += ["24:00", "T2400"]
    for text in texts:
        yield from _texts(_disguised(text, draw, fold=False))
    kinds = [pa.time32("ms"), pa.time64("us"), pa.time64("ns"), *([pa.time32("s")] * (micros == 0))]
    for kind in kinds:
        yield Spelling(str(kind), pa.array([value], kind))


def truths(draw: random.Random, *, fold: bool = True) -> Iterator[Spelling]:
    """Booleans, which are numbers too."""
    value = draw.random() < 0.5
    yield Spelling("bool", pa.array([value]))
    for text in (str(value), str(value).lower(), str(value).upper()):
        yield from _texts(_disguised(text, draw, fold=False))
    yield from _number(int(value), draw, fold=fold)


FAMILIES: tuple[Callable[..., Iterator[Spelling]], ...] = (numbers, words, uuids, instants, times, truths)
