#!/usr/bin/env python3
"""Writes vectors.h: sealed pages as `cryptography` (PyPI) makes them, from what seal.h says.

    python3 vectors.py > vectors.h
"""

import hmac
import struct
from hashlib import sha256

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

KEY = bytes(range(32))
DIGEST = bytes(range(100, 116))
LONG = bytes(i * 7 % 256 for i in range(100_000))


def expand(key: bytes, info: bytes) -> bytes:
    return HKDFExpand(SHA256(), 32, info).derive(key)


def seal(place: tuple, content: bytes) -> bytes:
    number_of_key, kind, number, digest, tenant, service = place
    aad = (
        b"FGP1"
        + struct.pack("<IIQ", number_of_key, kind, number)
        + digest
        + struct.pack("<II", len(tenant), len(service))
        + tenant
        + service
    )
    iv = hmac.new(expand(KEY, b"flamegrid iv"), aad + content, sha256).digest()[:24]
    return iv + AESGCM(expand(KEY, b"flamegrid page" + iv[:12])).encrypt(iv[12:], content, aad)


def text(content: bytes) -> str:
    return '"' + content.hex() + '"'


print("/* Made by vectors.py. */")
print("static const struct vector vectors[] = {")
for place, content in [
    ((1, 1, 0, bytes(16), b"acme", b"shop"), b"page"),
    ((7, 33, 2, DIGEST, b"acme", b""), b""),
    ((0xFFFFFFFF, 17, 1 << 40, DIGEST, b"a" * 40, b"service/\xc3\xa9"), bytes(range(256))),
]:
    key, kind, number, digest, tenant, service = place
    print(f"    {{{key}u, {kind}, {number}u, {text(digest)},")
    print(f"     {text(tenant)}, {text(service)},")
    print(f"     {text(content)},")
    print(f"     {text(seal(place, content))}}},")
print("};")
print("/* Of a page of 100,000 bytes, i * 7, at the place of the first vector: SHA-256. */")
print(f"static const char long_sha256[] = {text(sha256(seal((1, 1, 0, bytes(16), b'acme', b'shop'), LONG)).digest())};")
