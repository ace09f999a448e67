"""Encryption of a job's files: AES-256-GCM, each piece bound to its name and number.

A piece that was moved, replaced by a piece of another commit, or changed cannot be decrypted.
"""

import hashlib
import os

from castleguard.errors import ConfigError, SnapshotError

_NONCE = 12
_KEY = 32


class Cipher:
    """Seals and opens pieces under one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY:
            raise ConfigError(
                f"the key must have {_KEY} bytes, got {len(key)}: make one with `openssl rand -base64 32`"
            )
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ModuleNotFoundError as exc:
            raise ConfigError("encryption needs the package cryptography: pip install 'castleguard[encrypt]'") from exc
        self._cipher = AESGCM(key)
        self.digest_key = hashlib.blake2b(b"castleguard digest", key=key, digest_size=_KEY).digest()
        """Key of the digest over sealed pieces, from which the key itself cannot be derived."""

    def seal(self, piece: bytes, label: str) -> bytes:
        """Encrypt; the same `label` is needed to open the piece."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, piece, label.encode())

    def open(self, sealed: bytes, label: str) -> bytes:
        """Decrypt; raises SnapshotError if the key or label is wrong or the data is damaged."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], label.encode())
        except (InvalidTag, ValueError) as exc:
            raise SnapshotError(f"{label} cannot be opened: wrong key or damaged data") from exc

    def opens(self, sealed: bytes, label: str) -> bool:
        """Whether a piece was sealed under this key and label."""
        try:
            self.open(sealed, label)
        except SnapshotError:
            return False
        return True

    def __repr__(self) -> str:
        return "Cipher(****)"
