/* Sealed pages: published vectors of the parts (RFC 5869, the GCM specification), vectors of whole
 * pages from another implementation (vectors.py), and pages that were changed in any way. */
#include "common/base/str.h"
#include "common/storage/seal/key_ring.h"
#include "common/storage/seal/seal.h"

#include <openssl/sha.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { HEX_MAX_BYTES = 512, LONG_BYTES = 100000 };

struct vector {
    uint32_t key, kind;
    uint64_t number;
    const char *digest, *tenant, *service, *content, *sealed; /* hexadecimal */
};
#include "tests/unit/common/storage/seal/vectors.h"

struct hex {
    uint8_t bytes[HEX_MAX_BYTES];
    size_t len;
};

static struct hex hex(const char *text)
{
    struct hex hex = {.len = strlen(text) / 2};

    assert_true(hex.len <= HEX_MAX_BYTES);
    assert_true(fg_parse_hex(fg_cstr(text), hex.bytes, hex.len));
    return hex;
}

static struct fg_slice slice(const struct hex *hex)
{
    return fg_bytes(hex->bytes, hex->len);
}

/* As in vectors.py. */
static struct fg_seal_key counting_key(void)
{
    struct fg_seal_key key;

    for (size_t i = 0; i < sizeof key.bytes; i++)
        key.bytes[i] = (uint8_t)i;
    return key;
}

/* RFC 5869, appendix A.1. and A.3.: the second half, from PRK to OKM. */
static void expand_gives_the_vectors_of_rfc_5869(void **state)
{
    static const struct {
        const char *prk, *info, *okm;
    } known[] = {
        {"077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5", "f0f1f2f3f4f5f6f7f8f9",
         "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
        {"19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04", "",
         "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(known); i++) {
        struct hex prk = hex(known[i].prk), info = hex(known[i].info), okm = hex(known[i].okm);
        struct fg_seal_key key;
        uint8_t out[64];

        memcpy(key.bytes, prk.bytes, sizeof key.bytes);
        fg_seal_expand(&key, slice(&info), out, okm.len);
        assert_memory_equal(out, okm.bytes, okm.len);
    }
}

/* McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 13 to 16. */
static void gcm_gives_the_vectors_of_its_specification(void **state)
{
    static const char zero[] = "0000000000000000000000000000000000000000000000000000000000000000";
    static const char key[] = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
    static const struct {
        const char *key, *nonce, *associated, *content, *ciphertext, *tag;
    } known[] = {
        {zero, "000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
        {zero, "000000000000000000000000", "", "00000000000000000000000000000000",
         "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
        {key, "cafebabefacedbaddecaf888", "",
         "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e244"
         "9"
         "a6b525b16aedf5aa0de657ba637b391aafd255",
         "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b105"
         "6"
         "828838c5f61e6393ba7a0abcc9f662898015ad",
         "b094dac5d93471bdec1a502270e3cc6c"},
        {key, "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
         "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e244"
         "9"
         "a6b525b16aedf5aa0de657ba637b39",
         "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b105"
         "6"
         "828838c5f61e6393ba7a0abcc9f662",
         "76fc6ece0f4e1768cddf8853bb2d551b"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(known); i++) {
        struct hex secret = hex(known[i].key), nonce = hex(known[i].nonce);
        struct hex associated = hex(known[i].associated), content = hex(known[i].content);
        struct hex ciphertext = hex(known[i].ciphertext), tag = hex(known[i].tag);
        uint8_t out[HEX_MAX_BYTES], out_tag[FG_SEAL_TAG_BYTES];
        struct fg_seal_key seal_key;

        memcpy(seal_key.bytes, secret.bytes, sizeof seal_key.bytes);
        fg_seal_gcm(&seal_key, nonce.bytes, slice(&associated), slice(&content), out, out_tag);
        assert_memory_equal(out_tag, tag.bytes, sizeof out_tag);
        assert_true(content.len == 0 || memcmp(out, ciphertext.bytes, content.len) == 0);
        assert_true(fg_seal_gcm_open(&seal_key, nonce.bytes, slice(&associated), slice(&ciphertext),
                                     tag.bytes, out));
        assert_true(content.len == 0 || memcmp(out, content.bytes, content.len) == 0);
        tag.bytes[0] ^= 1;
        assert_false(fg_seal_gcm_open(&seal_key, nonce.bytes, slice(&associated),
                                      slice(&ciphertext), tag.bytes, out));
        for (size_t k = 0; k < content.len; k++)
            assert_int_equal(out[k], 0);
    }
}

/* It calls the provider, the other EVP: of each length, with associated data of each length. */
static void a_cipher_of_many_texts_gives_what_that_of_one_gives(void **state)
{
    enum { LONGEST_BYTES = 1200, ASSOCIATED_BYTES = 60 };
    const struct fg_seal_key key = counting_key();
    struct fg_seal_cipher *sealing = fg_seal_cipher_create(&key, true);
    struct fg_seal_cipher *opening = fg_seal_cipher_create(&key, false);
    static uint8_t text[LONGEST_BYTES], want[LONGEST_BYTES], got[LONGEST_BYTES];
    uint8_t nonce[FG_SEAL_NONCE_BYTES] = {0}, want_tag[FG_SEAL_TAG_BYTES], tag[FG_SEAL_TAG_BYTES];

    (void)state;
    for (size_t i = 0; i < LONGEST_BYTES; i++)
        text[i] = (uint8_t)(i * 11 + 3);
    for (size_t len = 0; len <= LONGEST_BYTES; len += len < 300 ? 1 : 61) {
        struct fg_slice content = fg_bytes(text, len);
        struct fg_slice associated = fg_bytes(text + 7, len % ASSOCIATED_BYTES);

        nonce[0] = (uint8_t)len;
        nonce[1] = (uint8_t)(len >> 8);
        fg_seal_gcm(&key, nonce, associated, content, want, want_tag);
        fg_seal_cipher_seal(sealing, nonce, associated, content, got, tag);
        assert_memory_equal(got, want, len);
        assert_memory_equal(tag, want_tag, sizeof tag);
        assert_true(fg_seal_cipher_open(opening, nonce, associated, fg_bytes(want, len), tag, got));
        assert_memory_equal(got, text, len);
        tag[len % sizeof tag] ^= 0x40;
        assert_false(
            fg_seal_cipher_open(opening, nonce, associated, fg_bytes(want, len), tag, got));
        for (size_t i = 0; i < len; i++)
            assert_int_equal(got[i], 0);
    }
    fg_seal_cipher_destroy(sealing);
    fg_seal_cipher_destroy(opening);
}

static void pages_are_those_of_another_implementation(void **state)
{
    struct fg_seal_key key = counting_key();
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(vectors); i++) {
        const struct vector *v = &vectors[i];
        struct hex digest = hex(v->digest), tenant = hex(v->tenant), service = hex(v->service);
        struct hex content = hex(v->content), sealed = hex(v->sealed);
        const struct fg_seal_place place = {.tenant = slice(&tenant),
                                            .service = slice(&service),
                                            .key = v->key,
                                            .kind = v->kind,
                                            .number = v->number,
                                            .digest = fg_id_get(digest.bytes)};
        uint8_t out[HEX_MAX_BYTES], opened[HEX_MAX_BYTES];

        fg_seal_page(&key, &place, slice(&content), out);
        assert_int_equal(sealed.len, content.len + FG_SEAL_MORE_BYTES);
        assert_memory_equal(out, sealed.bytes, sealed.len);
        assert_int_equal(fg_seal_open(&key, &place, slice(&sealed), opened, &err), FG_OK);
        assert_true(content.len == 0 || memcmp(opened, content.bytes, content.len) == 0);
    }
}

static void a_long_page_is_that_of_another_implementation(void **state)
{
    const struct fg_seal_place place = {
        .tenant = FG_LIT("acme"), .service = FG_LIT("shop"), .key = 1, .kind = 1};
    struct fg_seal_key key = counting_key();
    uint8_t *content = fg_malloc(LONG_BYTES), *sealed = fg_malloc(LONG_BYTES + FG_SEAL_MORE_BYTES);
    uint8_t hash[SHA256_DIGEST_LENGTH];
    struct hex known = hex(long_sha256);

    (void)state;
    for (size_t i = 0; i < LONG_BYTES; i++)
        content[i] = (uint8_t)(i * 7);
    fg_seal_page(&key, &place, fg_bytes(content, LONG_BYTES), sealed);
    (void)SHA256(sealed, LONG_BYTES + FG_SEAL_MORE_BYTES, hash);
    assert_memory_equal(hash, known.bytes, sizeof hash);
    free(content);
    free(sealed);
}

static void every_changed_byte_is_detected(void **state)
{
    static const char content[] = "a page of profiles";
    enum { SEALED_BYTES = sizeof content + FG_SEAL_MORE_BYTES };
    const struct fg_seal_place place = {
        .tenant = FG_LIT("acme"), .service = FG_LIT("shop"), .key = 3, .kind = 4, .number = 5};
    struct fg_seal_key key = counting_key();
    uint8_t sealed[SEALED_BYTES], out[sizeof content];
    struct fg_err err;

    (void)state;
    fg_seal_page(&key, &place, fg_bytes(content, sizeof content), sealed);
    for (size_t i = 0; i < sizeof sealed; i++) {
        sealed[i] ^= 0x40;
        assert_int_equal(fg_seal_open(&key, &place, fg_bytes(sealed, sizeof sealed), out, &err),
                         FG_E_CORRUPT);
        sealed[i] ^= 0x40;
    }
    assert_int_equal(fg_seal_open(&key, &place, fg_bytes(sealed, sizeof sealed), out, &err), FG_OK);
    assert_memory_equal(out, content, sizeof content);
}

static void a_page_belongs_to_one_place_and_one_key(void **state)
{
    static const char content[] = "a page of profiles";
    enum { SEALED_BYTES = sizeof content + FG_SEAL_MORE_BYTES };
    const struct fg_seal_place place = {
        .tenant = FG_LIT("acme"), .service = FG_LIT("shop"), .key = 3, .kind = 4, .number = 5};
    struct fg_seal_place others[] = {place, place, place, place, place, place, place};
    struct fg_seal_key key = counting_key(), other_key = key;
    uint8_t sealed[SEALED_BYTES], other[SEALED_BYTES], out[sizeof content];
    struct fg_err err;

    (void)state;
    others[0].tenant = FG_LIT("acm");
    others[1].service = FG_LIT("shops");
    others[2].key = 4;
    others[3].kind = 5;
    others[4].number = 6;
    others[5].digest.lo = 1;
    others[6].tenant = FG_LIT("acmes"); /* the same bytes, divided otherwise */
    others[6].service = FG_LIT("hop");
    fg_seal_page(&key, &place, fg_bytes(content, sizeof content), sealed);
    for (size_t i = 0; i < FG_COUNT(others); i++) {
        assert_int_equal(fg_seal_open(&key, &others[i], fg_bytes(sealed, sizeof sealed), out, &err),
                         FG_E_CORRUPT);
        /* And has other bytes there: never the same key and nonce. */
        fg_seal_page(&key, &others[i], fg_bytes(content, sizeof content), other);
        assert_memory_not_equal(other, sealed, FG_SEAL_IV_BYTES);
    }
    other_key.bytes[31] ^= 1;
    assert_int_equal(fg_seal_open(&other_key, &place, fg_bytes(sealed, sizeof sealed), out, &err),
                     FG_E_CORRUPT);
}

static void the_ring_keeps_keys_until_they_are_dropped(void **state)
{
    enum { KEYS = 300 }; /* more than a slab has */
    fg_auto(fg_key_ring) *ring = fg_key_ring_create();
    struct fg_seal_key key = {{0}}, found;

    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < KEYS; i++) {
            key.bytes[0] = (uint8_t)i;
            key.bytes[1] = (uint8_t)(i / 256);
            fg_key_ring_add(ring, i % 2 == 0 ? FG_LIT("even") : FG_LIT("odd"), i, &key);
        }
        for (uint32_t i = 0; i < KEYS; i++) {
            assert_true(
                fg_key_ring_find(ring, i % 2 == 0 ? FG_LIT("even") : FG_LIT("odd"), i, &found));
            assert_int_equal(found.bytes[0] + 256 * found.bytes[1], i);
            assert_false(
                fg_key_ring_find(ring, i % 2 == 0 ? FG_LIT("odd") : FG_LIT("even"), i, &found));
        }
        for (uint32_t i = 1; i < KEYS; i += 2) {
            fg_key_ring_drop(ring, FG_LIT("odd"), i);
            fg_key_ring_drop(ring, FG_LIT("even"), i); /* it has none of that number */
        }
        for (uint32_t i = 0; i < KEYS; i++)
            assert_int_equal(
                fg_key_ring_find(ring, i % 2 == 0 ? FG_LIT("even") : FG_LIT("odd"), i, &found),
                i % 2 == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expand_gives_the_vectors_of_rfc_5869),
        cmocka_unit_test(gcm_gives_the_vectors_of_its_specification),
        cmocka_unit_test(a_cipher_of_many_texts_gives_what_that_of_one_gives),
        cmocka_unit_test(pages_are_those_of_another_implementation),
        cmocka_unit_test(a_long_page_is_that_of_another_implementation),
        cmocka_unit_test(every_changed_byte_is_detected),
        cmocka_unit_test(a_page_belongs_to_one_place_and_one_key),
        cmocka_unit_test(the_ring_keeps_keys_until_they_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
