"""Canonical form of dates, moments and times of day: one text for all spellings of the same.

    days        2020-01-02, 2020-1-2, 2020/01/02, 2020 1 2, 2020-002 (day of the year), 2020-W01-4,
                20200102T00, 2020-01-01T24:00, 2020-01-02T02:00+02:00                               20200102
    moments     2020-01-02T12:30, 2020-01-02 12:30:00Z, 20200102T1230, 2020-01-02 2:30 PM +02:00     @1577968200
    times       12:30, T1230, 12:30:00.000, 2:30 PM+02:00                                           12:30:00

Text without a zone is in UTC. A day of the years 1 to 9999 is the number of its digits, so the number 20200102, its
text and the date are the same. A moment at midnight is its day.
"""

import datetime as dt
import re

_DAY = (
    r"(?P<year>[0-9]{4})(?:(?P<mark>[-/._: ])(?P<month>[0-9]{1,2})(?P=mark)(?P<day>[0-9]{1,2})"
    r"|(?P<digits>[0-9]{4})|-?(?P<nth>[0-9]{3})|-?W(?P<week>[0-9]{2})-?(?P<weekday>[1-7]))"
)
_CLOCK = (
    r"(?P<hour>[0-9]{2}|[0-9](?=:))(?::?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2})(?:[.,](?P<part>[0-9]+))?)?)?"
    r"(?: ?(?P<half>[AP])\.?M\.?)?"
)
_NAME = r"(?:\[[A-Z0-9_/+-]+\])?"  # of a zone, after its offset
_ZONE = (
    rf"(?: ?(?:Z|UTC|GMT){_NAME})?"
    r"(?: ?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2})(?::?(?P<seconds>[0-9]{2}))?)?"
    rf"{_NAME})?"
)
_MOMENT = re.compile(f"{_DAY}(?:(?:T|,? ){_CLOCK})?{_ZONE}", re.IGNORECASE | re.ASCII)
_TIME = re.compile(f"(?:T|(?=[0-9]?[0-9]:)){_CLOCK}{_ZONE}", re.IGNORECASE | re.ASCII)
_EPOCH = dt.date(1970, 1, 1).toordinal()
_LAST = dt.date.max.toordinal()
_PER_DAY = 86_400


def read_moment(text: str) -> str | None:
    """Canonical form of a day or a moment; None if the text is neither.

    >>> [read_moment(text) for text in ("2020-1-2", "2020-01-01T24:00", "2020-01-02T00:00+02:00", "2020-13-01")]
    ['20200102', '20200102', '@1577916000', None]
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    days, within, east = _days(found), _seconds_of_day(found), _east(found)
    if days is None or within is None or east is None:
        return None
    if found["sign"] and not found["hour"] and ":" not in text[found.start("sign") :]:
        return None  # "2020-123-0456" looks like a case number; after a day, a zone is "-04:56"
    return moment_form(days * _PER_DAY + within - east, found["part"] or "")


def read_time(text: str) -> str | None:
    """Canonical form of a time of day; None if the text is not one.

    >>> [read_time(text) for text in ("T1230", "2:30 pm+02:00", "12:30:00.50", "24:00", "25:00")]
    ['12:30:00', '12:30:00', '12:30:00.5', '00:00:00', None]
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    within, east = _seconds_of_day(found), _east(found)
    if within is None or east is None:
        return None
    minutes, second = divmod((within - east) % _PER_DAY, 60)
    clock, part = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}", (found["part"] or "").rstrip("0")
    return f"{clock}.{part}" if part else clock


def moment_form(seconds: int, fraction: str) -> str:
    """Canonical form of a moment, from seconds since 1970 in UTC and the digits of a fraction."""
    fraction = fraction.rstrip("0")
    days, within = divmod(seconds, _PER_DAY)
    if within == 0 and not fraction and 1 <= days + _EPOCH <= _LAST:
        day = dt.date.fromordinal(days + _EPOCH)
        return str(day.year * 10_000 + day.month * 100 + day.day)
    return f"@{seconds}.{fraction}" if fraction else f"@{seconds}"


def _days(found: re.Match[str]) -> int | None:
    """Days since 1970; None for a day that does not exist."""
    year = int(found["year"])
    try:
        if found["week"]:
            day = dt.date.fromisocalendar(year, int(found["week"]), int(found["weekday"]))
        elif found["nth"]:
            day = dt.date(year, 1, 1) + dt.timedelta(days=int(found["nth"]) - 1)
        elif found["digits"]:
            day = dt.date(year, int(found["digits"][:2]), int(found["digits"][2:]))
        else:
            day = dt.date(year, int(found["month"]), int(found["day"]))
    except (ValueError, OverflowError):
        return None
    return None if found["nth"] and day.year != year else day.toordinal() - _EPOCH


def _seconds_of_day(found: re.Match[str]) -> int | None:
    """Seconds since midnight, those of a whole day for 24:00; None for a time that does not exist."""
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"] in "pP" else 0)
    if hour == 24:
        return None if minute or second or (found["part"] or "").strip("0") else _PER_DAY
    # A leap second counts as the second after it, as in POSIX time.
    return hour * 3600 + minute * 60 + second if hour < 24 and minute < 60 and second <= 60 else None


def _east(found: re.Match[str]) -> int | None:
    """Offset of the zone from UTC in seconds, positive to the east; None for an offset that does not exist."""
    hours, minutes, seconds = (int(found[name] or 0) for name in ("hours", "minutes", "seconds"))
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    east = hours * 3600 + minutes * 60 + seconds
    return -east if found["sign"] == "-" else east
