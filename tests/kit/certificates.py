"""Certificates and keys as files, in the formats that Kafka, Redis and the service read."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


def write_certificate(folder: Path, name: str, leaf: trustme.LeafCert) -> None:
    """Write a certificate (.crt) and its private key (.key), and both in one file (.pem), as Kafka needs them."""
    secret = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    key = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # the format that Kafka reads
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    for suffix, content in (("key", key), ("crt", chain), ("pem", key + chain)):
        (folder / f"{name}.{suffix}").write_bytes(content)
