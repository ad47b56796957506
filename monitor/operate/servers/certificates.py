"""Certificates for embedded servers on this machine: an authority whose key is not kept, and one server."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from monitor.operate.servers.ports import LOOPBACK

_DAYS: Final = 30
_HOST: Final = "localhost"


class ServerCertificate(NamedTuple):
    """Files as PEM: the certificate of the authority, and the certificate and the private key of the server."""

    authority: bytes
    certificate: bytes
    key: bytes


def _build(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.CertificateBuilder:
    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=_DAYS))


def create_certificate() -> ServerCertificate:
    """Return a certificate for 127.0.0.1 and localhost, valid for 30 days, and that of its authority."""
    now, authority = datetime.now(UTC), "location-monitor servers --secure"
    signing, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName(_HOST), x509.IPAddress(ipaddress.ip_address(LOOPBACK))])
    identifier = x509.SubjectKeyIdentifier.from_public_key(signing.public_key())
    root = (
        _build(authority, authority, signing, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(_make_usage(signs_certificates=True), critical=True)
        .sign(signing, SHA256())
    )
    leaf = (
        _build(_HOST, authority, own, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(_make_usage(signs_certificates=False), critical=True)
        .add_extension(names, critical=False)
        .sign(signing, SHA256())
    )
    key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return ServerCertificate(root.public_bytes(Encoding.PEM), leaf.public_bytes(Encoding.PEM), key)


def _make_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
