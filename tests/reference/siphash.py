"""SipHash-2-4 (Aumasson and Bernstein, 2012) as the paper describes it, on Python integers."""

WORD = 2**64 - 1


def siphash(message: bytes, key: tuple[int, int]) -> int:
    """64 bits of hash."""

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & WORD

    v = [
        key[0] ^ 0x736F6D6570736575,
        key[1] ^ 0x646F72616E646F6D,
        key[0] ^ 0x6C7967656E657261,
        key[1] ^ 0x7465646279746573,
    ]

    def sip_round() -> None:
        for a, b, bits in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)):
            v[a] = (v[a] + v[b]) & WORD
            v[b] = rotate(v[b], bits) ^ v[a]
            if b == 1:
                v[a] = rotate(v[a], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        sip_round()
        sip_round()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        sip_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]
