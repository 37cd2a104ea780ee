#!/usr/bin/env python3
"""Makes tests/data/access: tokens that a server has to take or to refuse, signed by joserfc, a library that shares no code with ours.

    build/access/joserfc/bin/python tests/access/corpus.py    (tests/access/run installs it there, by locks/joserfc.txt)

With the arguments FOLDER SECONDS it makes the same tokens there, for another time: what tests/access asks a server with.

keys.json is the key set of the issuer. tokens.tsv has a line for each token: name, verdict (ok, denied, or unknown: no key has its kid), what the
reason has to contain, and the token. Keys are new with each run and their private parts are kept nowhere. The time of all of it is NOW.
"""

import base64
import hashlib
import hmac
import json
import os
import sys

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives import serialization
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

NOW = int(sys.argv[2]) if len(sys.argv) > 2 else 1_800_000_000  # 2027-01-15
ISSUER = "https://issuer.example"
AUDIENCE = "flamegrid"
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def dump(value):
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


class Corpus:
    def __init__(self):
        self.rsa = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
        self.rs = RSAKey.generate_key(3072, {"kid": "rs-only", "alg": "RS256"})
        self.ec = ECKey.generate_key("P-256", {"kid": "ec"})
        self.ed = OKPKey.generate_key("Ed25519", {"kid": "ed", "alg": "EdDSA"})
        self.weak = RSAKey.import_key(
            rsa.generate_private_key(65537, 1024).private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            {"kid": "weak"})
        self.enc = RSAKey.generate_key(2048, {"kid": "enc", "use": "enc"})
        self.stranger = RSAKey.generate_key(2048, {"kid": "rsa"})
        self.lines = []

    def key_set(self):
        off_curve = dict(self.ec.as_dict(private=False), kid="off-curve")
        y = bytearray(unb64(off_curve["y"]))
        y[-1] ^= 1
        off_curve["y"] = b64(bytes(y))
        public = [key.as_dict(private=False) for key in (self.rsa, self.rs, self.ec, self.ed, self.weak, self.enc)]
        leaked = dict(RSAKey.generate_key(2048).as_dict(private=True), kid="leaked")
        everybody = {"kty": "OKP", "crv": "Ed25519", "x": b64(b"\1" + bytes(31)), "kid": "everybody"}
        secret = {"kty": "oct", "k": b64(b"secret" * 8), "kid": "secret"}
        public[2]["key_ops"] = ["verify"]
        return {"keys": [*public, off_curve, leaked, everybody, secret, {"kty": "future", "kid": "future"}]}

    def sign(self, key, alg, header, claims):
        content = b64(dump(header).encode()) + "." + b64(dump(claims).encode())
        return content + "." + b64(JWSRegistry.algorithms[alg].sign(content.encode(), key))

    def claims(self, **changes):
        base = {"iss": ISSUER, "sub": "user-1", "aud": AUDIENCE, "exp": NOW + 600, "iat": NOW - 10, "groups": ["dev", "ops"]}
        base.update(changes)
        return {name: value for name, value in base.items() if value is not None}

    def token(self, key=None, alg="RS256", header=(), **changes):
        key = key or self.rsa
        head = {"alg": alg, "typ": "JWT", "kid": key.kid, **dict(header)}
        return self.sign(key, alg, {name: value for name, value in head.items() if value is not None}, self.claims(**changes))

    def add(self, name, verdict, why, token):
        self.lines.append("\t".join((name, verdict, why, token)))

    def ok(self, name, token):
        self.add(name, "ok", "", token)

    def no(self, name, why, token):
        self.add(name, "denied", why, token)

    # ---- what has to pass ----

    def good(self):
        self.ok("RS256", self.token())
        self.ok("PS256", self.token(alg="PS256"))
        self.ok("ES256", self.token(self.ec, "ES256"))
        self.ok("EdDSA", self.token(self.ed, "EdDSA"))
        self.ok("RS256 with a key for it alone", self.token(self.rs))
        self.ok("no typ", self.token(header={"typ": None}))
        self.ok("at+jwt", self.token(header={"typ": "at+JWT"}))
        self.ok("no kid, one key for the algorithm", self.token(self.ec, "ES256", header={"kid": None}))
        self.ok("the audience in a list", self.token(aud=[AUDIENCE]))
        self.ok("several audiences, azp is ours", self.token(aud=["other", AUDIENCE], azp=AUDIENCE))
        self.ok("one audience, azp is another's", self.token(azp="grafana"))
        self.ok("nonce n1", self.token(nonce="n1", azp=AUDIENCE))
        self.ok("nonce n1, azp is another's", self.token(nonce="n1", azp="grafana"))
        self.ok("expired 59 s ago", self.token(exp=NOW - 59))
        self.ok("times with fractions", self.token(exp=NOW + 5.5, iat=NOW - 5.25))
        self.ok("valid in 60 s", self.token(nbf=NOW + 60))
        self.ok("issued in 60 s", self.token(iat=NOW + 60))
        self.ok("blanks in the JSON", self.sign(self.rsa, "RS256", ' {"alg" : "RS256", "kid": "rsa" }', " " + json.dumps(self.claims(), indent=2) + "\n"))
        self.ok("an escaped name", self.sign(self.rsa, "RS256", {"alg": "RS256", "kid": "rsa"}, dump(self.claims()).replace('"iss"', '"\\u0069ss"')))
        # n - s is as good a signature as s. The standard has no rule against it (RFC 7518, 3.4).
        content, _, signature = self.token(self.ec, "ES256").rpartition(".")
        raw = unb64(signature)
        other = P256_ORDER - int.from_bytes(raw[32:], "big")
        self.ok("ES256 with the other s", content + "." + b64(raw[:32] + other.to_bytes(32, "big")))
        # A header that brings a key is not asked for it; the key set's is used.
        public = self.stranger.as_dict(private=False)
        self.ok("the header has another jwk, which is ignored", self.token(header={"jwk": public}))

    # ---- algorithms and keys ----

    def algorithms(self):
        content = self.token().rpartition(".")[0]
        claims = content.partition(".")[2]
        for name in ("none", "None", "NONE", "nOnE", ""):
            head = b64(dump({"alg": name, "typ": "JWT"}).encode())
            self.no(f"alg {name or 'empty'}, no signature", "three parts", f"{head}.{claims}.")
            self.no(f"alg {name or 'empty'}, some signature", "alg is not", f"{head}.{claims}.AAAA")
        self.no("no alg", "alg is not", self.sign(self.rsa, "RS256", {"kid": "rsa"}, self.claims()))
        self.no("alg is a list", "alg is not", self.sign(self.rsa, "RS256", {"kid": "rsa", "alg": ["RS256"]}, self.claims()))
        self.no("alg in lower case", "alg is not", self.sign(self.rsa, "RS256", {"kid": "rsa", "alg": "rs256"}, self.claims()))
        self.no("alg with a NUL", "alg is not", self.sign(self.rsa, "RS256", {"kid": "rsa", "alg": "RS256\0"}, self.claims()))
        pem = self.rsa.as_pem(private=False)
        der = self.rsa.raw_value.public_key() if hasattr(self.rsa.raw_value, "public_key") else self.rsa.raw_value
        der = der.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        for form, secret in (("PEM", pem), ("PEM without its line end", pem.strip()), ("DER", der), ("modulus", unb64(self.rsa.as_dict(private=False)["n"])), ("nothing", b"")):
            head = {"alg": "HS256", "typ": "JWT", "kid": "rsa"}
            text = b64(dump(head).encode()) + "." + claims
            self.no(f"HS256 with the public key ({form})", "alg is not", text + "." + b64(hmac.new(secret, text.encode(), hashlib.sha256).digest()))
        self.no("HS256 with the symmetric key of the set", "alg is not", self.sign(OctKey.import_key(b"secret" * 8), "HS256", {"alg": "HS256", "kid": "secret"}, self.claims()))
        for alg in ("RS384", "RS512", "PS384", "PS512"):
            self.no(alg, "alg is not", self.token(alg=alg))
        self.add("PS256 with a key for RS256 alone", "unknown", "no key", self.token(self.rs, "PS256"))
        self.no("RS256 whose header says PS256", "signature", self.sign(self.rsa, "RS256", {"alg": "PS256", "kid": "rsa"}, self.claims()))
        self.no("PS256 whose header says RS256", "signature", self.sign(self.rsa, "PS256", {"alg": "RS256", "kid": "rsa"}, self.claims()))
        self.add("ES256 with the kid of an RSA key", "unknown", "no key", self.token(self.ec, "ES256", header={"kid": "rsa"}))
        self.add("EdDSA with the kid of an EC key", "unknown", "no key", self.token(self.ed, "EdDSA", header={"kid": "ec"}))
        self.add("RSA with 1024 bits", "unknown", "no key", self.token(self.weak))
        self.add("a key for encryption", "unknown", "no key", self.token(self.enc))
        self.add("a key off its curve", "unknown", "no key", self.token(self.ec, "ES256", header={"kid": "off-curve"}))
        # The identity as public key: R = S*B verifies for any content. S = 0, R = the identity.
        everybody = b64(dump({"alg": "EdDSA", "kid": "everybody"}).encode()) + "." + claims
        self.add("a point that anybody can sign for", "unknown", "no key", everybody + "." + b64(b"\1" + bytes(63)))

    def key_ids(self):
        for kid in ("../../../../dev/null", "rsa' OR '1'='1", "rsa\0", "RSA", "", "rsa/../rsa", "k" * 256):
            self.add(f"kid {kid[:24]!r}", "unknown", "no key", self.token(header={"kid": kid}))
        self.no("kid of 257 bytes", "kid is not", self.token(header={"kid": "k" * 257}))
        self.no("kid is a number", "kid is not", self.token(header={"kid": 1}))
        self.no("kid is a list", "kid is not", self.token(header={"kid": ["rsa"]}))
        self.add("no kid, two keys for the algorithm", "unknown", "no key", self.token(header={"kid": None}))
        self.no("a stranger's key with a known kid", "signature", self.token(self.stranger))
        public = self.stranger.as_dict(private=False)
        self.no("a stranger's key in jwk", "signature", self.token(self.stranger, header={"jwk": public}))
        self.add("a stranger's key in jwk, another kid", "unknown", "no key", self.token(self.stranger, header={"jwk": public, "kid": "mine"}))
        self.no("a stranger's key by jku", "signature", self.token(self.stranger, header={"jku": "http://127.0.0.1:1/keys"}))
        self.no("a stranger's key by x5u", "signature", self.token(self.stranger, header={"x5u": "http://127.0.0.1:1/cert"}))
        self.no("a stranger's key in x5c", "signature", self.token(self.stranger, header={"x5c": [base64.b64encode(b"certificate").decode()]}))

    # ---- header ----

    def headers(self):
        self.no("crit", "crit or b64", self.token(header={"crit": ["exp"]}))
        self.no("crit is null", "crit or b64", self.sign(self.rsa, "RS256", '{"alg":"RS256","kid":"rsa","crit":null}', self.claims()))
        self.no("b64", "crit or b64", self.sign(self.rsa, "RS256", {"alg": "RS256", "kid": "rsa", "b64": False, "crit": ["b64"]}, self.claims()))
        for kind in ("logout+jwt", "dpop+jwt", "JOSE+JSON", "secevent+jwt", ""):
            self.no(f"typ {kind}", "typ is neither", self.token(header={"typ": kind}))
        self.no("two alg", "two members", self.sign(self.rsa, "RS256", '{"alg":"none","alg":"RS256","kid":"rsa"}', self.claims()))
        self.no("two kid, one escaped", "two members", self.sign(self.rsa, "RS256", '{"alg":"RS256","kid":"x","\\u006bid":"rsa"}', self.claims()))
        self.no("huge header", "more than 1 KiB", self.token(header={"pad": "x" * 1100}))
        self.no("header is a list", "object", self.sign(self.rsa, "RS256", '["RS256"]', self.claims()))
        self.no("header is not JSON", "header", self.sign(self.rsa, "RS256", "{alg:RS256}", self.claims()))
        self.no("data after the header", "header", self.sign(self.rsa, "RS256", '{"alg":"RS256","kid":"rsa"}{}', self.claims()))
        self.no("header with a mark of byte order", "header", self.sign(self.rsa, "RS256", '\ufeff{"alg":"RS256","kid":"rsa"}', self.claims()))

    # ---- claims ----

    def content(self):
        raw = lambda text: self.sign(self.rsa, "RS256", {"alg": "RS256", "kid": "rsa"}, text)
        text = dump(self.claims())
        self.no("two sub", "two members", raw(text.replace('"sub":', '"sub":"admin","sub":')))
        self.no("two aud, the first ours", "two members", raw(text.replace('"aud":"flamegrid"', '"aud":"flamegrid","aud":"other"')))
        self.no("two names in a nested object", "two members", raw(text[:-1] + ',"realm":{"roles":["a"],"roles":["b"]}}'))
        self.no("wrong iss", "iss is not", self.token(iss="https://other.example"))
        self.no("iss with a slash at its end", "iss is not", self.token(iss=ISSUER + "/"))
        self.no("iss in upper case", "iss is not", self.token(iss=ISSUER.upper()))
        self.no("iss is a list", "iss is missing", self.token(iss=[ISSUER]))
        self.no("no iss", "iss is missing", self.token(iss=None))
        self.no("wrong aud", "aud does not", self.token(aud="grafana"))
        self.no("aud that begins like ours", "aud does not", self.token(aud="flamegrid2"))
        self.no("aud without us", "aud does not", self.token(aud=["a", "b"]))
        self.no("aud is empty", "aud does not", self.token(aud=[]))
        self.no("aud is an object", "aud does not", self.token(aud={"flamegrid": True}))
        self.no("no aud", "aud does not", self.token(aud=None))
        self.no("several audiences, no azp", "no azp", self.token(aud=[AUDIENCE, "other"]))
        self.no("several audiences, azp is another's", "azp is not", self.token(aud=[AUDIENCE, "other"], azp="other"))
        self.no("several audiences, azp is a list", "azp is not", self.token(aud=[AUDIENCE, "other"], azp=[AUDIENCE]))
        self.no("expired 60 s ago", "expired", self.token(exp=NOW - 60))
        self.no("expired 61 s ago", "expired", self.token(exp=NOW - 61))
        self.no("no exp", "exp is missing", self.token(exp=None))
        self.no("exp is a text", "exp is missing", self.token(exp=str(NOW + 600)))
        self.no("exp is negative", "exp is missing", self.token(exp=-1))
        self.no("exp beyond 64 bits", "exp is missing", raw(text.replace(str(NOW + 600), "1e300")))
        self.no("exp beyond doubles", "exp is missing", raw(text.replace(str(NOW + 600), "1e400")))
        self.no("exp is true", "exp is missing", self.token(exp=True))
        self.no("valid in 61 s", "not valid yet", self.token(nbf=NOW + 61))
        self.no("nbf is a text", "is no time", self.token(nbf="0"))
        self.no("issued in 61 s", "issued in the future", self.token(iat=NOW + 61))
        self.no("no sub", "sub is missing", self.token(sub=None))
        self.no("sub is empty", "sub is missing", self.token(sub=""))
        self.no("sub is a number", "sub is missing", self.token(sub=7))
        self.no("sub of 513 bytes", "sub is missing", self.token(sub="s" * 513))
        self.no("sub with a line end", "control character", self.token(sub="user\nadmin"))
        self.no("nested nine deep", "too deep", self.token(deep=[[[[[[[[1]]]]]]]]))
        self.no("too many members", "too many members", self.token(**{f"c{i}": 1 for i in range(130)}))
        self.no("claims are a list", "object", raw("[]"))
        self.no("claims are empty", "value is expected", raw(" "))
        self.no("claims are not UTF-8", "UTF-8", self.latin1())
        self.no("data after the claims", "claims", raw(text + text))

    def latin1(self):
        content = b64(b'{"alg":"RS256","kid":"rsa"}') + "." + b64(dump(self.claims()).replace("user-1", "user\xff").encode("latin-1"))
        return content + "." + b64(JWSRegistry.algorithms["RS256"].sign(content.encode(), self.rsa))

    # ---- the form ----

    def form(self):
        token = self.token()
        head, claims, signature = token.split(".")
        ec_content, _, ec_signature = self.token(self.ec, "ES256").rpartition(".")
        ed_content, _, ed_signature = self.token(self.ed, "EdDSA").rpartition(".")
        raw, ed = unb64(ec_signature), unb64(ed_signature)
        self.no("empty", "three parts", "")
        self.no("dots alone", "three parts", "..")
        self.no("two parts", "three parts", f"{head}.{claims}")
        self.no("four parts", "three parts", token + ".AAAA")
        self.no("no signature", "three parts", f"{head}.{claims}.")
        self.no("padding", "three parts", token + "=")
        self.no("a blank before it", "three parts", " " + token)
        self.no("a blank in the claims", "three parts", f"{head}.{claims[:9]} {claims[9:]}.{signature}")
        self.no("plus for minus", "three parts", f"{head}.{claims}.{signature[:-2]}+A")
        # 256 bytes are 342 characters, of which the last has four bits that are not used.
        last = signature[:-1] + chr(ord(signature[-1]) + 1)
        self.no("bits after the last byte", "strict base64url", f"{head}.{claims}.{last}")
        self.no("a part of one character more than bytes", "strict base64url", f"{head}.{claims}.{signature}AAA")
        self.no("signature cut short", "signature", f"{head}.{claims}.{b64(unb64(signature)[:-1])}")
        self.no("signature with a byte more", "signature", f"{head}.{claims}.{b64(unb64(signature) + bytes(1))}")
        self.no("signature with a zero before it", "signature", f"{head}.{claims}.{b64(bytes(1) + unb64(signature))}")
        self.no("signature of zeros", "signature", f"{head}.{claims}.{b64(bytes(256))}")
        self.no("signature of another token", "signature", f"{head}.{claims}.{self.token(sub='user-2').split('.')[2]}")
        self.no("claims of another token", "signature", f"{head}.{self.token(sub='admin').split('.')[1]}.{signature}")
        self.no("ES256 in DER", "signature", ec_content + "." + b64(self.der(raw)))
        self.no("ES256 with 63 bytes", "signature", ec_content + "." + b64(raw[:63]))
        self.no("ES256 with 65 bytes", "signature", ec_content + "." + b64(raw + b"\0"))
        self.no("ES256 with r and s zero", "signature", ec_content + "." + b64(bytes(64)))
        self.no("ES256 with s plus the order, cut", "signature", ec_content + "." + b64(raw[:32] + ((int.from_bytes(raw[32:], "big") + P256_ORDER) % 2**256).to_bytes(32, "big")))
        self.no("ES256 with r of the order and s one", "signature", ec_content + "." + b64(P256_ORDER.to_bytes(32, "big") + (1).to_bytes(32, "big")))
        s = int.from_bytes(ed[32:], "little") + ED25519_ORDER
        self.no("EdDSA with s plus the order", "signature", ed_content + "." + b64(ed[:32] + s.to_bytes(32, "little")))
        self.no("EdDSA with 63 bytes", "signature", ed_content + "." + b64(ed[:63]))
        self.no("more than 8 KiB", "more than 8 KiB", self.token(pad="x" * 8000))

    @staticmethod
    def der(raw):
        number = lambda part: b"\2" + bytes([len(part)]) + part
        parts = [part.lstrip(b"\0") for part in (raw[:32], raw[32:])]
        parts = [b"\0" + part if part[0] & 0x80 else part for part in parts]
        body = b"".join(map(number, parts))
        return b"\x30" + bytes([len(body)]) + body


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data", "access")
    corpus = Corpus()
    for part in (corpus.good, corpus.algorithms, corpus.key_ids, corpus.headers, corpus.content, corpus.form):
        part()
    with open(os.path.join(folder, "keys.json"), "w", encoding="utf-8") as out:
        json.dump(corpus.key_set(), out, indent=1)
        out.write("\n")
    with open(os.path.join(folder, "tokens.tsv"), "w", encoding="utf-8") as out:
        out.write("".join(line + "\n" for line in corpus.lines))
    print(f"{len(corpus.lines)} tokens")


if __name__ == "__main__":
    sys.exit(main())
