"""Random choices by address: a ChaCha20 stream (RFC 8439) that is asked for one draw at a time.

A draw belongs to (purpose, row position, index), never to a running generator, so two programs that reach the same
event make the same choice, regardless of earlier draws. The transcription asks through `choose`; a test may pass any
object with a `pick`, for instance one that replays a script. CASTLEGUARD samples and perturbs with whole words, from
a separate source and key: any object with a `word` will do.

A word that hides something also belongs to what it hides, its `content`: all that the randomiser reads, as bytes. Other
content at the same place gets other words, which have nothing to do with the first ones. The address then has a SipHash
of the content, by a key that follows from the key of the words.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

from .siphash import siphash

PURPOSES = {
    "tie": 1,
    "merge_tie": 2,
    "reuse": 3,
    "seed_bucket": 4,
    "row_in_bucket": 5,
    "person_row": 6,
    "shuffle": 7,
    "ratchet": 8,
    "sample": 9,
    "noise": 10,
    "response": 11,
    "content": 12,
}

CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k", little endian
WORD = 0xFFFFFFFF


class Choices(Protocol):
    """Source of the algorithm's "randomly select"."""

    def pick(self, purpose: str, position: int, n: int) -> int:
        """A number in [0, n); called only with n >= 2."""


class WordSource(Protocol):
    """Source of CASTLEGUARD's random numbers."""

    def word(self, purpose: str, position: int, index: int, content: bytes | None = None) -> int:
        """32 random bits; the same address always gives the same bits."""


@runtime_checkable
class Ratcheting(Protocol):
    """A source whose key is replaced regularly, so that it does not reveal past draws."""

    def ratchet(self, arrivals: int) -> None: ...


def choose(choices: Choices, purpose: str, position: int, n: int) -> int:
    """One of n; a single alternative uses no draw."""
    return 0 if n == 1 else choices.pick(purpose, position, n)


def shuffle(draws: "Draws", position: int, rows: list[int], content: bytes) -> None:
    """Shuffle the rows of one release (Fisher and Yates); the order depends on their content."""
    for last in range(len(rows) - 1, 0, -1):
        other = draws.pick("shuffle", position, last + 1, content)
        rows[last], rows[other] = rows[other], rows[last]


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) & WORD) | (word >> (32 - bits))


def _quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    state[a] = (state[a] + state[b]) & WORD
    state[d] = _rotate(state[d] ^ state[a], 16)
    state[c] = (state[c] + state[d]) & WORD
    state[b] = _rotate(state[b] ^ state[c], 12)
    state[a] = (state[a] + state[b]) & WORD
    state[d] = _rotate(state[d] ^ state[a], 8)
    state[c] = (state[c] + state[d]) & WORD
    state[b] = _rotate(state[b] ^ state[c], 7)


@lru_cache(maxsize=256)
def block(key: tuple[int, ...], counter: int, nonce: tuple[int, int, int]) -> tuple[int, ...]:
    """The ChaCha20 block function of RFC 8439, section 2.3: 16 words of 32 bits."""
    start = [*CONSTANTS, *key, counter, *nonce]
    state = list(start)
    for _ in range(10):
        _quarter_round(state, 0, 4, 8, 12)
        _quarter_round(state, 1, 5, 9, 13)
        _quarter_round(state, 2, 6, 10, 14)
        _quarter_round(state, 3, 7, 11, 15)
        _quarter_round(state, 0, 5, 10, 15)
        _quarter_round(state, 1, 6, 11, 12)
        _quarter_round(state, 2, 7, 8, 13)
        _quarter_round(state, 3, 4, 9, 14)
    return tuple((after + before) & WORD for after, before in zip(state, start, strict=True))


class _Key:
    """A key of 8 words of 32 bits; at every multiple of `ratchet_every` a one-way image of itself replaces it."""

    def __init__(self, key: Sequence[int], ratchet_every: int = 2**20) -> None:
        if len(key) != 8:
            raise ValueError(f"a ChaCha20 key is 8 words of 32 bits, got {len(key)} words")
        self._key = tuple(key)
        self._ratchet_every = ratchet_every
        self._ratcheted_at = 0

    def ratchet(self, arrivals: int) -> None:
        """Called before the row at position `arrivals` is processed; a second call has no effect."""
        if arrivals % self._ratchet_every != 0 or arrivals <= self._ratcheted_at:
            return
        self._key = block(self._key, 0, _nonce("ratchet", arrivals))[:8]
        self._ratcheted_at = arrivals

    def word(self, purpose: str, position: int, index: int, content: bytes | None = None) -> int:
        """Word `index` of this purpose at this position, for this content: 16 of them come from one block."""
        return block(self._key, index // 16, self._address(purpose, position, content))[index % 16]

    def _address(self, purpose: str, position: int, content: bytes | None) -> tuple[int, int, int]:
        if content is None:
            return _nonce(purpose, position)
        digest = self.digest(content)
        return (position << 5) & WORD | 1 << 4 | PURPOSES[purpose], digest & WORD, digest >> 32

    def digest(self, content: bytes) -> int:
        """Representation of the content in an address."""
        return _digest(self._key, content)


class Draws(_Key):
    """The choices of one keyed stream."""

    def __init__(self, key: Sequence[int], ratchet_every: int = 2**20) -> None:
        super().__init__(key, ratchet_every)
        self._made: dict[tuple[str, int, bytes | None], int] = {}

    def pick(self, purpose: str, position: int, n: int, content: bytes | None = None) -> int:
        """The next draw of this purpose at this position, for this content, in [0, n)."""
        index = self._made.get((purpose, position, content), 0)
        self._made[purpose, position, content] = index + 1
        out = block(self._key, index // 8, self._address(purpose, position, content))
        i = index % 8
        word = out[2 * i] | out[2 * i + 1] << 32
        return (word * n) >> 64


class Words(_Key):
    """The words of one keyed stream; a position here is the row's arrival number."""


@lru_cache(maxsize=16)
def _digest(key: tuple[int, ...], content: bytes) -> int:
    k = block(key, 0, _nonce("content", 0))
    return siphash(content, (k[0] | k[1] << 32, k[2] | k[3] << 32))


def _nonce(purpose: str, position: int) -> tuple[int, int, int]:
    return PURPOSES[purpose], position & WORD, position >> 32
