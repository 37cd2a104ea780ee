/* The text of tokens: what is one, and what only looks like one. */
#include "common/access/registry/token.h"

#include <openssl/sha.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* The checksum by zlib, not by what the token's code uses. */
static void make_text(const char *id, const char *secret, char out[FG_TOKEN_CHARS + 1])
{
    unsigned long crc;
    size_t len;

    (void)snprintf(out, FG_TOKEN_CHARS + 1, "fgt_%s_%s", id, secret);
    len = strlen(out);
    crc = crc32(0, (const unsigned char *)out, (unsigned)len);
    for (size_t i = 0; i < FG_TOKEN_CRC_CHARS; i++) {
        out[len + FG_TOKEN_CRC_CHARS - 1 - i] = alphabet[crc % 62];
        crc /= 62;
    }
    out[len + FG_TOKEN_CRC_CHARS] = '\0';
}

static bool reads(const char *text, size_t len)
{
    struct fg_token token;

    return fg_token_read(fg_bytes(text, len), &token);
}

static const char id[] = "4uJc0TqZ", secret[] = "sXr7m1L9bV5kWn3pQ8yD2eG6hT0aZcRf";

static void a_text_with_the_crc_of_zlib_is_a_token(void **state)
{
    char text[FG_TOKEN_CHARS + 1];
    uint8_t sha[SHA256_DIGEST_LENGTH];
    struct fg_token token;

    (void)state;
    make_text(id, secret, text);
    assert_int_equal(strlen(text), FG_TOKEN_CHARS);
    assert_true(fg_token_read(fg_bytes(text, FG_TOKEN_CHARS), &token));
    assert_string_equal(token.id, id);
    (void)SHA256((const unsigned char *)text, FG_TOKEN_CHARS, sha);
    assert_memory_equal(token.hash, sha, sizeof sha);
}

/* Tokens are stored by people: the text of one never changes its meaning. */
static void a_token_of_before_is_one_for_ever(void **state)
{
    static const char kept[] = "fgt_4uJc0TqZ_sXr7m1L9bV5kWn3pQ8yD2eG6hT0aZcRf0kbin7";
    char text[FG_TOKEN_CHARS + 1];

    (void)state;
    make_text(id, secret, text);
    assert_string_equal(text, kept);
    assert_true(reads(kept, FG_TOKEN_CHARS));
}

static void one_wrong_character_is_found_wherever_it_is(void **state)
{
    char text[FG_TOKEN_CHARS + 1];

    (void)state;
    make_text(id, secret, text);
    for (size_t i = 0; i < FG_TOKEN_CHARS; i++) {
        char right = text[i];

        for (int c = 0; c < 256; c++) {
            text[i] = (char)c;
            if (text[i] != right)
                assert_false(reads(text, FG_TOKEN_CHARS));
        }
        text[i] = right;
    }
    assert_true(reads(text, FG_TOKEN_CHARS));
}

static void two_swapped_characters_are_found(void **state)
{
    char text[FG_TOKEN_CHARS + 1];

    (void)state;
    make_text(id, secret, text);
    for (size_t i = 0; i + 1 < FG_TOKEN_CHARS; i++) {
        char kept = text[i];

        if (text[i] == text[i + 1])
            continue;
        text[i] = text[i + 1];
        text[i + 1] = kept;
        assert_false(reads(text, FG_TOKEN_CHARS));
        text[i + 1] = text[i];
        text[i] = kept;
    }
}

static void other_lengths_are_none(void **state)
{
    char text[FG_TOKEN_CHARS + 2];

    (void)state;
    make_text(id, secret, text);
    text[FG_TOKEN_CHARS] = '0';
    assert_false(reads(text, FG_TOKEN_CHARS + 1));
    for (size_t len = 0; len < FG_TOKEN_CHARS; len++)
        assert_false(reads(text, len));
    assert_false(reads(text + 1, FG_TOKEN_CHARS));
}

/* Its checksum is right, so only the look at the characters can refuse it. */
static void characters_outside_of_the_alphabet_are_none(void **state)
{
    static const char *const ids[] = {"4uJc0Tq.", "4uJc0Tq_", "4uJc0Tq-",      "4uJc0Tq/",
                                      "4uJc0Tq:", "4uJc 0Tq", "4uJc0T\xc3\xa4"};
    char text[FG_TOKEN_CHARS + 1];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(ids); i++) {
        make_text(ids[i], secret, text);
        assert_int_equal(strlen(text), FG_TOKEN_CHARS);
        assert_false(reads(text, FG_TOKEN_CHARS));
    }
}

static void count(size_t seen[62], const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *at = strchr(alphabet, text[i]);

        assert_non_null(at);
        seen[at - alphabet]++;
    }
}

/* Each byte value is as often at each place: then each character has to be as often, too. */
static void no_character_is_likelier_than_others(void **state)
{
    uint8_t random[FG_TOKEN_RANDOM_BYTES];
    char text[FG_TOKEN_CHARS + 1];
    size_t seen[62] = {0};
    struct fg_token token;

    (void)state;
    for (unsigned first = 0; first < 248; first++) {
        for (size_t i = 0; i < sizeof random; i++)
            random[i] = (uint8_t)((first + i * 5) % 248);
        assert_true(fg_token_make(random, NULL, text, &token));
        count(seen, text + 4, FG_TOKEN_ID_CHARS);
        count(seen, text + 13, FG_TOKEN_SECRET_CHARS);
    }
    for (size_t i = 0; i < FG_COUNT(seen); i++)
        assert_int_equal(seen[i], 248 * (FG_TOKEN_ID_CHARS + FG_TOKEN_SECRET_CHARS) / 62);
}

/* 248 to 255 would make the first eight characters likelier: they are passed over. */
static void the_last_byte_values_are_passed_over(void **state)
{
    uint8_t random[FG_TOKEN_RANDOM_BYTES], clean[FG_TOKEN_RANDOM_BYTES];
    char text[FG_TOKEN_CHARS + 1], same[FG_TOKEN_CHARS + 1];
    struct fg_token token;

    (void)state;
    for (size_t i = 0; i < sizeof random; i++) {
        random[i] = (uint8_t)(i % 2 == 0 ? 248 + i % 8 : i);
        clean[i] = (uint8_t)(2 * i + 1 < sizeof random ? 2 * i + 1 : 0);
    }
    assert_true(fg_token_make(random, NULL, text, &token));
    assert_true(fg_token_make(clean, NULL, same, &token));
    assert_string_equal(text, same);
}

static void a_broken_source_of_randomness_gives_no_token(void **state)
{
    uint8_t random[FG_TOKEN_RANDOM_BYTES];
    char text[FG_TOKEN_CHARS + 1];
    struct fg_token token;

    (void)state;
    memset(random, 0xff, sizeof random);
    assert_false(fg_token_make(random, NULL, text, &token));
    /* Enough for an id, not for a secret. */
    memset(random, 0, FG_TOKEN_ID_CHARS + FG_TOKEN_SECRET_CHARS - 1);
    assert_false(fg_token_make(random, NULL, text, &token));
}

static void a_new_secret_keeps_the_id(void **state)
{
    uint8_t random[FG_TOKEN_RANDOM_BYTES];
    char text[FG_TOKEN_CHARS + 1];
    struct fg_token token, read_again;

    (void)state;
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)i;
    assert_true(fg_token_make(random, "ABCDabcd", text, &token));
    assert_memory_equal(text, "fgt_ABCDabcd_", 13);
    assert_string_equal(token.id, "ABCDabcd");
    assert_true(fg_token_read(fg_bytes(text, FG_TOKEN_CHARS), &read_again));
    assert_true(fg_token_hash_eq(token.hash, read_again.hash));
}

static void hashes_differ_by_any_bit(void **state)
{
    uint8_t a[FG_TOKEN_HASH_BYTES] = {1, 2, 3}, b[FG_TOKEN_HASH_BYTES] = {1, 2, 3};

    (void)state;
    assert_true(fg_token_hash_eq(a, b));
    for (size_t i = 0; i < 8 * sizeof b; i++) {
        b[i / 8] ^= (uint8_t)(1U << i % 8);
        assert_false(fg_token_hash_eq(a, b));
        b[i / 8] ^= (uint8_t)(1U << i % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_with_the_crc_of_zlib_is_a_token),
        cmocka_unit_test(a_token_of_before_is_one_for_ever),
        cmocka_unit_test(one_wrong_character_is_found_wherever_it_is),
        cmocka_unit_test(two_swapped_characters_are_found),
        cmocka_unit_test(other_lengths_are_none),
        cmocka_unit_test(characters_outside_of_the_alphabet_are_none),
        cmocka_unit_test(no_character_is_likelier_than_others),
        cmocka_unit_test(the_last_byte_values_are_passed_over),
        cmocka_unit_test(a_broken_source_of_randomness_gives_no_token),
        cmocka_unit_test(a_new_secret_keeps_the_id),
        cmocka_unit_test(hashes_differ_by_any_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
