"""Keys of tenants in the transit engine of Vault: of the double (tests/lib/transit.py), and of Vault itself where it can be built."""

import json
import os
import tempfile
import time

import encryption
import flamegrid
import versions
from certs import Certificates
from encryption import command, flush_without_keys, keys_of, make, must, objects, ready_of, wait_for, with_keys, write_key
from flamegrid import check
from transit import Transit
from vault import Vault

COOLDOWN_S = 1.5  # what did not answer is left alone for a second


class Place:
    """A vault, the file with its token, and the settings."""

    def __init__(self, folder, vault):
        self.vault, self.token_file = vault, os.path.join(folder, "token")
        self.url = ("--encryption.vault_address", vault.url, "--encryption.vault_token_file", self.token_file)
        self.key = (*self.url, "--encryption.vault_ca_file", vault.ca)
        self.give(vault.token())

    def give(self, token):
        with open(self.token_file, "w", encoding="ascii") as out:
            out.write(token + "\n")
        self.token = token


def unchecked(server, key, why):
    """A program that starts now cannot have the keys, and does not take that for damage."""
    code, text = command(server.data, "bucket", "verify", *key)
    check(code == 2 and "unchecked: " in text and why in text and "damage" not in text, "%d %s, not %s", code, text, why)


def restart(server):
    check(server.terminate() == 0, "%s", server.log_tail())
    server.start().wait_ready()


def a_vault_may_be_sealed(server, place):
    """Profiles wait in the head. A program that has the keys needs no Vault; one that starts waits for it."""
    place.vault.seal()
    make.push(server, *versions.HOURS)
    flush_without_keys(server)
    check(not objects(server.data), "%s", objects(server.data))
    check("status 503" in ready_of(server) and "Vault is sealed" in ready_of(server), "%s", ready_of(server))
    place.vault.unseal()
    time.sleep(COOLDOWN_S)
    make.flush(server)
    check("head_without_keys" not in ready_of(server), "the condition stays")
    check(keys_of(server.data, *place.key) == {("acme", 1), ("zeta", 1)}, "%s", keys_of(server.data, *place.key))
    expected = make.answers(server)
    place.vault.seal()
    check(make.answers(server) == expected, "other answers while it is sealed")
    check(server.terminate() == 0, "%s", server.log_tail())
    server.start()
    wait_for("waiting", lambda: "keys_away" in ready_of(server))
    place.vault.unseal()
    server.wait_ready()
    check(make.answers(server) == expected, "other answers after it was waited for")
    return expected


def a_token_ends(server, place, expected):
    """One that may not decrypt, that was revoked, that has expired; the file is read for each call, so a new one needs no restart."""
    good = place.token
    place.give(place.vault.token("encrypt"))
    unchecked(server, place.key, "status 403")
    unchecked(server, place.key, "permission denied")
    place.give("hvs.nobodys")
    unchecked(server, place.key, "permission denied")
    short = place.vault.token(seconds=3)
    place.give(short)
    must(server.data, "bucket", "verify", *place.key)
    wait_for("expired", lambda: command(server.data, "bucket", "verify", *place.key)[0] == 2)
    unchecked(server, place.key, "permission denied")
    renewed = place.vault.token(seconds=3)
    place.vault.renew(renewed, 3600)
    place.give(renewed)
    time.sleep(3.5)
    must(server.data, "bucket", "verify", *place.key)
    place.vault.revoke(good)
    place.give(good)
    check(make.answers(server) == expected, "other answers: the keys are known")
    unchecked(server, place.key, "permission denied")
    now_s = int(time.time())
    status, body = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "late"}).send(
        "POST", "/ingest?name=shop.cpu&from=%d&until=%d" % (now_s - 20, now_s - 10), b"main;work 7\n")
    check(status == 200, "a push of a tenant without a key: %d %s", status, body)
    flush_without_keys(server)
    place.give(place.vault.token())
    time.sleep(COOLDOWN_S)
    make.flush(server)  # without a restart
    check("head_without_keys" not in ready_of(server), "the condition stays")


def the_key_is_rotated(server, place, expected):
    """Vault's key gets a version, and in the end refuses the first one: what was not encrypted again is not readable then, and is once more
    when Vault takes it again."""
    place.vault.rotate()
    check(make.answers(server) == expected, "other answers after the rotation")
    restart(server)  # the key of the head is encrypted with the new version
    place.vault.require(2)
    unchecked(server, place.key, "disallowed by policy (too old)")
    place.vault.require(1)
    text = must(server.data, "encryption", "rewrap", *place.key)
    count = len(keys_of(server.data, *place.key))
    check("%d keys are encrypted again" % count in text, "%d: %s", count, text)
    check(json.loads(must(server.data, "encryption", "rewrap", "--json", *place.key)) == {"rewrapped": 0}, "twice")
    place.vault.require(2)
    must(server.data, "bucket", "verify", *place.key)
    restart(server)
    check(make.answers(server) == expected, "other answers with the second version alone")


def keys_are_in_a_vault(kind):
    """A transit engine encrypts the keys, over TLS: sealed, with tokens that end, with versions of its key."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-vault.") as folder, kind(Certificates(folder)) as vault:
        place = Place(folder, vault)
        with flamegrid.Server(*with_keys(*place.key)) as server:
            server.start().wait_ready()
            expected = a_vault_may_be_sealed(server, place)
            a_token_ends(server, place, expected)
            the_key_is_rotated(server, place, expected)
            unchecked(server, place.url, "certificate")
            check(not encryption.everywhere(server.data, place.token.encode()), "the token is in the bucket")
            check(place.token not in server.log_tail(), "the token is in the log")
            check(server.terminate() == 0, "%s", server.log_tail())
            code, text = command(server.data, "bucket", "verify", "--encryption.key_file", write_key(folder, "old"), *place.key)
            check(code != 0 and "encryption.old_key_files" in text, "%d %s", code, text)


def a_vault_is_asked_once():
    """For each key and process; and what it refuses for one tenant, it does not for the others."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-vault.") as folder, Transit(Certificates(folder)) as transit:
        place = Place(folder, transit)
        with flamegrid.Server(*with_keys(*place.key)) as server:
            server.start().wait_ready()
            transit.refused = {"acme"}
            make.push(server, *versions.HOURS)
            flush_without_keys(server)
            check(keys_of(server.data, *place.key) == {("zeta", 1)}, "%s", keys_of(server.data, *place.key))
            transit.refused = set()
            make.flush(server)
            expected = make.answers(server)
            transit.calls.clear()
            restart(server)
            for _ in range(3):
                check(make.answers(server) == expected, "other answers after a restart")
            # Two tenants and the head; its key is encrypted again with the newest version.
            check(transit.calls == {"/v1/transit/decrypt/flamegrid": 3, "/v1/transit/encrypt/flamegrid": 1}, "%s", transit.calls)
            check(server.terminate() == 0, "%s", server.log_tail())


def keys_are_in_vault_itself():
    keys_are_in_a_vault(Vault)


def keys_are_in_its_double():
    keys_are_in_a_vault(Transit)
