"""Keys of nodes: one ed25519 pair each, the private half encrypted at rest.

``GANGWAY_SECRET_KEYS`` holds one or more Fernet keys: the first encrypts, all decrypt, so a key
is rotated by putting a new one in front. Never: a private key on disk, in a log or in an error.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from django.conf import settings

from .errors import NodeError

MAKE_A_KEY = (
    'python3 -c "import base64,os;print(base64.urlsafe_b64encode(os.urandom(32)).decode())"'
)


@dataclass(frozen=True)
class KeyPair:
    """``public`` is ``ssh-ed25519 AAAA…``; ``sealed`` is the private half, encrypted."""

    public: str
    sealed: str


def new_pair() -> KeyPair:
    """Make a pair; the private half leaves this function encrypted only."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return KeyPair(public, _box().encrypt(private).decode())


def opened(sealed: str) -> str:
    """The private key as OpenSSH PEM. Raises NodeError when no secret key fits."""
    try:
        return _box().decrypt(sealed.encode()).decode()
    except InvalidToken as wrong:
        raise NodeError(
            "None of the GANGWAY_SECRET_KEYS opens this node's private key.",
            next_step="Put the key it was sealed with back into GANGWAY_SECRET_KEYS, at the end.",
        ) from wrong


def sealed_anew(sealed: str) -> str:
    """The same private key under the first of the secret keys: for rotating them."""
    opened(sealed)
    return _box().rotate(sealed.encode()).decode()


def fingerprint(public: str) -> str:
    """``SHA256:…`` of a key given as ``type base64``, as ssh-keygen -l prints it."""
    digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def authorized_line(public: str, *, name: str, source: str = "") -> str:
    """The line for ``authorized_keys``: no forwarding, no terminal, only from ``source``.

    ``source`` is what sshd takes after ``from=``: addresses or networks, comma-separated.
    """
    limits = f'restrict,from="{source}"' if source else "restrict"
    return f"{limits} {public} gangway {name}"


def _box() -> MultiFernet:
    return _box_of(tuple(settings.GANGWAY_SECRET_KEYS))


@lru_cache(maxsize=4)
def _box_of(secrets: tuple[str, ...]) -> MultiFernet:
    try:
        fernets = [Fernet(secret) for secret in secrets]
    except ValueError as malformed:
        raise NodeError(
            "A key in GANGWAY_SECRET_KEYS is not 32 bytes in URL-safe base64.",
            next_step=f"Make one with: {MAKE_A_KEY}",
        ) from malformed
    if not fernets:
        raise NodeError(
            "GANGWAY_SECRET_KEYS is empty, so keys of nodes cannot be kept encrypted.",
            next_step=f"Make one with: {MAKE_A_KEY}",
        )
    return MultiFernet(fernets)
