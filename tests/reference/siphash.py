"""SipHash-2-4 (Aumasson and Bernstein, 2012) as the paper describes it, on Python integers."""

WORD = 2**64 - 1

State = tuple[int, int, int, int]


def siphash(message: bytes, key: tuple[int, int]) -> int:
    """64 bits of hash."""
    v0 = key[0] ^ 0x736F6D6570736575
    v1 = key[1] ^ 0x646F72616E646F6D
    v2 = key[0] ^ 0x6C7967656E657261
    v3 = key[1] ^ 0x7465646279746573
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v0, v1, v2, v3 = sip_rounds(2, v0, v1, v2, v3 ^ word)
        v0 ^= word
    v0, v1, v2, v3 = sip_rounds(4, v0, v1, v2 ^ 0xFF, v3)
    return v0 ^ v1 ^ v2 ^ v3


def sip_rounds(count: int, v0: int, v1: int, v2: int, v3: int) -> State:
    """Figure 2.1 of the paper, so many times; a rotation by n bits to the left is written as two shifts."""
    for _ in range(count):
        v0 = (v0 + v1) & WORD
        v1 = ((v1 << 13) & WORD | v1 >> 51) ^ v0
        v0 = (v0 << 32) & WORD | v0 >> 32
        v2 = (v2 + v3) & WORD
        v3 = ((v3 << 16) & WORD | v3 >> 48) ^ v2
        v0 = (v0 + v3) & WORD
        v3 = ((v3 << 21) & WORD | v3 >> 43) ^ v0
        v2 = (v2 + v1) & WORD
        v1 = ((v1 << 17) & WORD | v1 >> 47) ^ v2
        v2 = (v2 << 32) & WORD | v2 >> 32
    return v0, v1, v2, v3
