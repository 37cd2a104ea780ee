/* AES-256-GCM against a vector of others, and against every changed bit. */
#include "common/access/gcm.h"
#include "common/base/str.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* "The Galois/Counter Mode of Operation" (McGrew, Viega), test case 16. */
static const char key_hex[] = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
static const char nonce_hex[] = "cafebabefacedbaddecaf888";
static const char known_hex[] = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
static const char plain_hex[] =
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c"
    "95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
static const char sealed_hex[] =
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08"
    "e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662";
static const char tag_hex[] = "76fc6ece0f4e1768cddf8853bb2d551b";

enum { BYTES = 60, KNOWN_BYTES = 20 };

struct vector {
    uint8_t key[FG_GCM_KEY_BYTES], nonce[FG_GCM_NONCE_BYTES], known[KNOWN_BYTES];
    uint8_t plain[BYTES], sealed[BYTES], tag[FG_GCM_TAG_BYTES];
};

static struct vector vector(void)
{
    struct vector v;

    assert_true(fg_parse_hex(fg_cstr(key_hex), v.key, sizeof v.key));
    assert_true(fg_parse_hex(fg_cstr(nonce_hex), v.nonce, sizeof v.nonce));
    assert_true(fg_parse_hex(fg_cstr(known_hex), v.known, sizeof v.known));
    assert_true(fg_parse_hex(fg_cstr(plain_hex), v.plain, sizeof v.plain));
    assert_true(fg_parse_hex(fg_cstr(sealed_hex), v.sealed, sizeof v.sealed));
    assert_true(fg_parse_hex(fg_cstr(tag_hex), v.tag, sizeof v.tag));
    return v;
}

static void the_published_vector_agrees(void **state)
{
    struct vector v = vector();
    uint8_t bytes[BYTES], tag[FG_GCM_TAG_BYTES];

    (void)state;
    memcpy(bytes, v.plain, sizeof bytes);
    fg_gcm_seal(v.key, v.nonce, fg_bytes(v.known, sizeof v.known), bytes, sizeof bytes, tag);
    assert_memory_equal(bytes, v.sealed, sizeof bytes);
    assert_memory_equal(tag, v.tag, sizeof tag);
    assert_true(
        fg_gcm_open(v.key, v.nonce, fg_bytes(v.known, sizeof v.known), bytes, sizeof bytes, tag));
    assert_memory_equal(bytes, v.plain, sizeof bytes);
}

static bool opens(const struct vector *v)
{
    uint8_t bytes[BYTES];

    memcpy(bytes, v->sealed, sizeof bytes);
    return fg_gcm_open(v->key, v->nonce, fg_bytes(v->known, sizeof v->known), bytes, sizeof bytes,
                       v->tag);
}

static void every_bit_counts(void **state)
{
    struct vector v = vector();
    uint8_t *parts[] = {v.key, v.nonce, v.known, v.sealed, v.tag};
    size_t sizes[] = {sizeof v.key, sizeof v.nonce, sizeof v.known, sizeof v.sealed, sizeof v.tag};

    (void)state;
    assert_true(opens(&v));
    for (size_t part = 0; part < FG_COUNT(parts); part++)
        for (size_t bit = 0; bit < 8 * sizes[part]; bit++) {
            parts[part][bit / 8] ^= (uint8_t)(1U << bit % 8);
            assert_false(opens(&v));
            parts[part][bit / 8] ^= (uint8_t)(1U << bit % 8);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vector_agrees),
        cmocka_unit_test(every_bit_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
