#include "common/model/definition_cache.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STACKS = 20000, RUN = 7 };

/* ---- sets that are freed ---- */

/* The table of the set to look at: it is a power of two of slots, and a stack stands at the slot of
 * its lowest bits or behind that. */
static struct {
    size_t slots; /* 0: do not look */
    size_t count;
    double distance; /* of a stack from its slot, on average */
} look;

static void look_at(const uint64_t *slots)
{
    uint64_t sum = 0;

    look.count = 0;
    for (size_t i = 0; i < look.slots; i++)
        if (slots[i] != 0) {
            sum += (i - slots[i]) & (look.slots - 1);
            look.count++;
        }
    look.distance = (double)sum / (double)FG_MAX(look.count, (size_t)1);
}

void __real_free(void *memory);
void __wrap_free(void *memory);

/* The linker gives our own code this one. */
void __wrap_free(void *memory)
{
    size_t bytes = memory == NULL ? 0 : malloc_usable_size(memory);

    /* Some allocators give a little more than they were asked for. */
    if (look.slots > 0 && bytes / sizeof(uint64_t) >= look.slots &&
        bytes / sizeof(uint64_t) < 2 * look.slots)
        look_at(memory);
    __real_free(memory);
}

/* Stacks number first, first + 1, ... */
struct ids {
    struct fg_id ids[STACKS];
    struct fg_stack stacks[STACKS];
    bool define[STACKS];
    uint32_t n;
};

static struct ids *ids_create(uint64_t first, uint32_t n)
{
    struct ids *ids = fg_new(struct ids);

    assert_true(n <= STACKS);
    ids->n = n;
    for (uint32_t i = 0; i < n; i++) {
        ids->ids[i] = (struct fg_id){fg_mix64(first + i), first + i};
        ids->stacks[i].id = ids->ids[i];
    }
    return ids;
}

static uint32_t count_unknown(struct fg_definition_cache *cache, uint64_t key, struct ids *ids)
{
    struct fg_batch batch = {.stacks = ids->stacks, .n_stacks = ids->n};
    uint32_t unknown = 0;

    memset(ids->define, 0, sizeof ids->define);
    fg_definition_cache_look_up(cache, key, &batch, ids->define);
    for (uint32_t i = 0; i < ids->n; i++)
        unknown += ids->define[i];
    return unknown;
}

static void add(struct fg_definition_cache *cache, uint64_t key, uint64_t start_id,
                const struct ids *ids)
{
    fg_definition_cache_add(cache, key, start_id, ids->ids, ids->n);
}

static void each_key_has_its_own_set(void **state)
{
    struct fg_definition_cache *cache = fg_definition_cache_create(100000);
    struct ids *some = ids_create(1, 500), *more = ids_create(401, 200);

    (void)state;
    assert_int_equal(count_unknown(cache, 1, some), 500);
    add(cache, 1, RUN, some);
    add(cache, 1, RUN, some); /* again: nothing new */
    assert_int_equal(count_unknown(cache, 1, some), 0);
    assert_int_equal(count_unknown(cache, 1, more), 100);
    assert_int_equal(count_unknown(cache, 2, some), 500);
    assert_int_equal(count_unknown(cache, 1 + 64, some), 500); /* under the same lock */
    fg_definition_cache_destroy(cache);
    free(some);
    free(more);
}

static void a_restarted_ingester_starts_with_an_empty_set(void **state)
{
    struct fg_definition_cache *cache = fg_definition_cache_create(100000);
    struct ids *some = ids_create(1, 500), *more = ids_create(501, 5);

    (void)state;
    add(cache, 1, RUN, some);
    add(cache, 1, RUN + 1, more);
    assert_int_equal(count_unknown(cache, 1, some), 500);
    assert_int_equal(count_unknown(cache, 1, more), 0);
    fg_definition_cache_forget(cache, 1);
    assert_int_equal(count_unknown(cache, 1, more), 5);
    fg_definition_cache_forget(cache, 2); /* was never cached */
    fg_definition_cache_destroy(cache);
    free(some);
    free(more);
}

/* As long as there is room, all sets stay, whichever lock guards them. */
static void a_few_large_services_fill_the_cache(void **state)
{
    struct fg_definition_cache *cache = fg_definition_cache_create((size_t)6 * STACKS);
    struct ids *all = ids_create(1, STACKS);

    (void)state;
    for (uint64_t key = 0; key < 4; key++)
        add(cache, key * 64, RUN, all);
    for (uint64_t key = 0; key < 4; key++)
        assert_int_equal(count_unknown(cache, key * 64, all), 0);
    fg_definition_cache_destroy(cache);
    free(all);
}

/* One service is used all the time while others come and go. */
static void the_least_recently_used_set_is_evicted_first(void **state)
{
    enum { KNOWN = 100000 };

    struct fg_definition_cache *cache = fg_definition_cache_create(KNOWN);
    struct ids *ours = ids_create(1, 3000), *other = ids_create(1, 3000);
    uint64_t empty_bytes = fg_definition_cache_bytes(cache);

    (void)state;
    add(cache, 1000, RUN, ours);
    for (uint64_t key = 0; key < 500; key++) {
        add(cache, key, RUN, other);
        assert_int_equal(count_unknown(cache, 1000, ours), 0);
        assert_int_equal(count_unknown(cache, key, other), 0);
        assert_true(fg_definition_cache_bytes(cache) - empty_bytes <= (uint64_t)KNOWN * 16);
    }
    assert_int_equal(count_unknown(cache, 0, other), 3000);
    fg_definition_cache_destroy(cache);
    free(ours);
    free(other);
}

/* A service with one stack takes more memory than the stack: the limit holds for all of it. */
static void memory_stays_bounded_with_many_small_services(void **state)
{
    struct fg_definition_cache *cache = fg_definition_cache_create(10000);
    struct ids *one = ids_create(1, 1), *large = ids_create(1, STACKS);
    uint64_t empty_bytes = fg_definition_cache_bytes(cache);

    (void)state;
    for (uint64_t key = 0; key < 5000; key++) {
        add(cache, key, RUN, one);
        assert_true(fg_definition_cache_bytes(cache) - empty_bytes <= 10000 * 16);
    }
    assert_int_equal(count_unknown(cache, 4999, one), 0);
    add(cache, 5000, RUN, large); /* larger than the whole cache */
    assert_true(fg_definition_cache_bytes(cache) - empty_bytes <= 10000 * 16);
    fg_definition_cache_destroy(cache);
    free(one);
    free(large);
}

/* Ids are hashes of stacks, of which a client tries some until the lowest bits are those it wants.
 */
static void chosen_stacks_do_not_meet_in_a_set(void **state)
{
    enum { CHOSEN = 3000, SLOTS = 4096 /* at most three quarters of them used */, MOST = 10 };
    struct fg_definition_cache *cache = fg_definition_cache_create(100000);
    struct ids *chosen = ids_create(1, CHOSEN);

    (void)state;
    for (uint32_t i = 0; i < CHOSEN; i++) {
        chosen->ids[i] = (struct fg_id){(uint64_t)(i + 1) * SLOTS, fg_mix64(i)};
        chosen->stacks[i].id = chosen->ids[i];
    }
    add(cache, 1, RUN, chosen);
    assert_int_equal(count_unknown(cache, 1, chosen), 0);
    look.slots = SLOTS;
    fg_definition_cache_destroy(cache);
    look.slots = 0;
    print_message("  %.1f slots away\n", look.distance);
    assert_int_equal(look.count, CHOSEN);
    assert_true(look.distance < MOST);
    free(chosen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_has_its_own_set),
        cmocka_unit_test(a_restarted_ingester_starts_with_an_empty_set),
        cmocka_unit_test(a_few_large_services_fill_the_cache),
        cmocka_unit_test(the_least_recently_used_set_is_evicted_first),
        cmocka_unit_test(memory_stays_bounded_with_many_small_services),
        cmocka_unit_test(chosen_stacks_do_not_meet_in_a_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
