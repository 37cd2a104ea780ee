/* Tokens are remembered for as long as they may be, and no more of them than there is room for. */
#include "common/access/issuer/verified.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

enum { ROOM = 4096, MANY = 20000, THREADS = 4 };

static const int64_t NOW_S = 1800000000;

static void number(uint64_t n, uint8_t hash[FG_VERIFIED_HASH_BYTES])
{
    /* Spread like a hash. */
    for (size_t i = 0; i < FG_VERIFIED_HASH_BYTES; i++) {
        n = n * 6364136223846793005U + 1442695040888963407U;
        hash[i] = (uint8_t)(n >> 56);
    }
}

static struct fg_identity *identity_of(uint64_t n, int64_t expires_s)
{
    char subject[32];
    struct fg_access_role roles[2] = {{FG_LIT("acme"), 3}, {FG_LIT("team-*"), 5}};
    struct fg_identity of = {.issuer = FG_LIT("i"),
                             .json = FG_LIT("{}"),
                             .roles = roles,
                             .n_roles = 2,
                             .expires_s = expires_s,
                             .generation = n};

    (void)snprintf(subject, sizeof subject, "user-%llu", (unsigned long long)n);
    of.subject = fg_cstr(subject);
    return fg_identity_create(&of);
}

static void put(struct fg_verified *table, uint64_t n, int64_t expires_s, int64_t now_s)
{
    fg_auto(fg_identity) *identity = identity_of(n, expires_s);
    uint8_t hash[FG_VERIFIED_HASH_BYTES];

    number(n, hash);
    fg_verified_put(table, hash, identity, now_s);
}

static struct fg_identity *get(struct fg_verified *table, uint64_t n, int64_t now_s)
{
    uint8_t hash[FG_VERIFIED_HASH_BYTES];

    number(n, hash);
    return fg_verified_get(table, hash, now_s);
}

static bool has(struct fg_verified *table, uint64_t n, int64_t now_s)
{
    fg_auto(fg_identity) *identity = get(table, n, now_s);

    return identity != NULL;
}

static void an_identity_is_copied_whole(void **state)
{
    struct fg_verified *table = fg_verified_create();
    struct fg_identity *identity;

    (void)state;
    put(table, 7, NOW_S + 60, NOW_S);
    identity = get(table, 7, NOW_S);
    fg_verified_destroy(table); /* a request goes on with it */
    assert_non_null(identity);
    assert_true(fg_slice_is(identity->issuer, "i"));
    assert_true(fg_slice_is(identity->subject, "user-7"));
    assert_true(fg_slice_is(identity->json, "{}"));
    assert_int_equal(identity->n_roles, 2);
    assert_true(fg_slice_is(identity->roles[1].tenants, "team-*"));
    assert_int_equal(identity->roles[1].scopes, 5);
    fg_identity_unref(identity);
}

static void a_token_is_remembered_until_it_expires(void **state)
{
    struct fg_verified *table = fg_verified_create();

    (void)state;
    put(table, 1, NOW_S + 60, NOW_S);
    put(table, 2, NOW_S + 86400, NOW_S);
    assert_true(has(table, 1, NOW_S + 59));
    assert_false(has(table, 1, NOW_S + 60));
    assert_true(has(table, 2, NOW_S + FG_VERIFIED_MAX_S - 1));
    assert_false(has(table, 2, NOW_S + FG_VERIFIED_MAX_S));
    assert_false(has(table, 3, NOW_S));
    /* Other roles do not make it last longer. */
    put(table, 2, NOW_S + 86400, NOW_S + 500);
    assert_true(has(table, 2, NOW_S + FG_VERIFIED_MAX_S - 1));
    assert_false(has(table, 2, NOW_S + FG_VERIFIED_MAX_S));
    /* Verified again, it does. */
    put(table, 2, NOW_S + 86400, NOW_S + FG_VERIFIED_MAX_S);
    assert_true(has(table, 2, NOW_S + FG_VERIFIED_MAX_S + 1));
    fg_verified_destroy(table);
}

static void there_is_room_for_so_many(void **state)
{
    struct fg_verified *table = fg_verified_create();
    unsigned n = 0;

    (void)state;
    for (uint64_t i = 0; i < MANY; i++)
        put(table, i, NOW_S + 600, NOW_S);
    for (uint64_t i = 0; i < MANY; i++)
        n += has(table, i, NOW_S);
    assert_true(n <= ROOM && n > ROOM * 9 / 10);
    assert_true(has(table, MANY - 1, NOW_S));
    fg_verified_destroy(table);
}

struct race {
    struct fg_verified *table;
    _Atomic unsigned found;
};

static void *use(void *arg)
{
    struct race *race = arg;

    for (uint64_t i = 0; i < MANY; i++) {
        uint64_t n = i % 97;
        fg_auto(fg_identity) *identity = get(race->table, n, NOW_S);

        if (identity == NULL) {
            put(race->table, n, NOW_S + 600, NOW_S);
            continue;
        }
        fg_assert(identity->generation == n);
        (void)atomic_fetch_add(&race->found, 1);
        if (i % 5 == 0)
            put(race->table, n, NOW_S + 600, NOW_S);
    }
    return NULL;
}

static void threads_share_it(void **state)
{
    struct race race = {.table = fg_verified_create()};
    pthread_t threads[THREADS];

    (void)state;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &race), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(atomic_load(&race.found) > MANY);
    fg_verified_destroy(race.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_identity_is_copied_whole),
        cmocka_unit_test(a_token_is_remembered_until_it_expires),
        cmocka_unit_test(there_is_room_for_so_many),
        cmocka_unit_test(threads_share_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
