/* Chunks: found by group, by time and by generation; all of them read back from the store. */
#include "ingester/head_chunks.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TENANTS = 3 };

struct fixture {
    struct fg_store *store;
    struct ing_head_chunks *chunks;
    struct fg_arena *arena;
};

/* With so many repaired and set aside. */
static struct ing_head_chunks *open_damaged(struct fg_store *store, uint64_t repaired,
                                            uint64_t set_aside)
{
    struct fg_store *tenants = fg_store_memory(HEAD_FAMILIES);
    struct ing_damage damage = {0};
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct fg_err err;

    assert_int_equal(ing_catalog_open(tenants, &(struct ing_catalog_bounds){1 << 20, 0}, &damage,
                                      &catalog, &err),
                     FG_OK);
    for (int i = 0; i < TENANTS; i++)
        (void)ing_catalog_tenant(catalog, fg_bytes(&"abc"[i], 1));
    assert_int_equal(ing_head_chunks_open(store, catalog, 1 << 20, &damage, &chunks, &err), FG_OK);
    assert_int_equal(damage.repaired, repaired);
    assert_int_equal(damage.set_aside, set_aside);
    ing_catalog_close(catalog);
    fg_store_close(tenants);
    return chunks;
}

static struct ing_head_chunks *open_chunks(struct fg_store *store)
{
    return open_damaged(store, 0, 0);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->store = fg_store_memory(HEAD_FAMILIES);
    f->chunks = open_chunks(f->store);
    f->arena = fg_arena_create(1 << 20);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_arena_destroy(f->arena);
    ing_head_chunks_close(f->chunks);
    fg_store_close(f->store);
    free(f);
    return 0;
}

static void write_batch(struct fg_store *store, struct fg_store_batch *batch)
{
    struct fg_err err;

    assert_int_equal(fg_store_write(store, batch, &err), FG_OK);
    fg_store_batch_done(batch);
}

/* Written and taken over, as the committer does it. */
static void keep(struct fixture *f, const struct ing_head_chunk *chunk)
{
    struct fg_store_batch batch;
    uint32_t cuts = FG_MAX(ing_head_chunks_cuts(f->chunks), FG_MAX(chunk->cut, chunk->born));

    fg_store_batch_init(&batch);
    ing_head_chunk_put(chunk, &batch);
    ing_head_chunks_put_cuts(cuts, &batch);
    write_batch(f->store, &batch);
    ing_head_chunks_set(f->chunks, chunk);
    ing_head_chunks_set_cuts(f->chunks, cuts);
}

static void reopen(struct fixture *f)
{
    ing_head_chunks_close(f->chunks);
    f->chunks = open_chunks(f->store);
}

static struct ing_head_chunk make(uint32_t tenant, uint16_t shard, uint32_t window, uint32_t number,
                                  int64_t time_ns)
{
    struct ing_head_chunk chunk =
        ing_head_chunk_empty(&(struct ing_head_chunk_key){{tenant, shard, window}, number});

    ing_head_chunk_add(&chunk, time_ns, (struct fg_id){1, 1}, 700);
    return chunk;
}

static void assert_same(const struct ing_head_chunk *a, const struct ing_head_chunk *b)
{
    assert_true(ing_head_same_chunk(&a->key, &b->key));
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->opened_wall_ns, b->opened_wall_ns);
    assert_int_equal(a->cut, b->cut);
    assert_int_equal(a->born, b->born);
    assert_int_equal(a->least_ns, b->least_ns);
    assert_int_equal(a->greatest_ns, b->greatest_ns);
    assert_true(fg_id_eq(a->digest, b->digest));
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->generation, b->generation);
}

static size_t count_of(struct fixture *f, const struct ing_head_chunks_filter *filter,
                       struct ing_head_chunk **ret_chunks)
{
    struct fg_err err;
    size_t count;

    assert_int_equal(ing_head_chunks_select(f->chunks, filter, f->arena, ret_chunks, &count, &err),
                     FG_OK);
    return count;
}

static void written_chunks_are_read_back(void **state)
{
    struct fixture *f = *state;
    struct ing_head_chunk chunk = make(1, 5, 7, 3, 100), back;

    ing_head_chunk_add(&chunk, 50, (struct fg_id){UINT64_MAX, 4}, 300);
    chunk.state = CHUNK_COMMITTED;
    chunk.opened_wall_ns = -5;
    chunk.cut = 4;
    chunk.born = 2;
    chunk.generation = 77;
    keep(f, &chunk);
    for (int i = 0; i < 2; i++) {
        assert_true(ing_head_chunks_find(f->chunks, &chunk.key, &back));
        assert_same(&back, &chunk);
        assert_int_equal(back.least_ns, 50);
        assert_int_equal(back.greatest_ns, 100);
        assert_int_equal(back.bytes, 1000);
        assert_int_equal(back.digest.lo, 0);
        assert_int_equal(back.digest.hi, 6);
        reopen(f);
    }
    chunk.key.number++;
    assert_false(ing_head_chunks_find(f->chunks, &chunk.key, &back));
}

static void cuts_are_kept(void **state)
{
    struct fixture *f = *state;
    struct fg_store_batch batch;

    assert_int_equal(ing_head_chunks_cuts(f->chunks), 0);
    fg_store_batch_init(&batch);
    ing_head_chunks_put_cuts(300, &batch);
    write_batch(f->store, &batch);
    ing_head_chunks_set_cuts(f->chunks, 300);
    assert_int_equal(ing_head_chunks_cuts(f->chunks), 300);
    reopen(f);
    assert_int_equal(ing_head_chunks_cuts(f->chunks), 300);
}

static void chunks_are_selected_by_time(void **state)
{
    static const struct {
        int64_t start, end;
        size_t count;
        uint16_t first_shard;
    } cases[] = {
        {INT64_MIN, INT64_MAX, 2, 4},
        {-7, 50, 2, 4},
        {-6, 49, 0, 0},
        {-7, -7, 1, 4},
        {100, 100, 1, 5},
        {101, 200, 0, 0},
        {60, 70, 1, 5},
    };
    struct fixture *f = *state;
    struct ing_head_chunk first = make(0, 5, 7, 0, 100), second = make(0, 4, 8, 0, -7), *found;

    ing_head_chunk_add(&first, 50, (struct fg_id){0, 0}, 0);
    keep(f, &first);
    keep(f, &second);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct ing_head_chunks_filter filter = {
            .start_ns = cases[i].start, .end_ns = cases[i].end, .any_state = true};

        assert_int_equal(count_of(f, &filter, &found), cases[i].count);
        if (cases[i].count > 0)
            assert_int_equal(found[0].key.group.shard, cases[i].first_shard);
        filter.tenant = 1;
        assert_int_equal(count_of(f, &filter, &found), 0);
        filter.tenant = 1000;
        assert_int_equal(count_of(f, &filter, &found), 0);
        filter.any_tenant = true;
        assert_int_equal(count_of(f, &filter, &found), cases[i].count);
    }
}

/* A reader that has the manifest of a generation reads what was committed up to it in blocks. */
static void chunks_are_selected_by_generation(void **state)
{
    struct fixture *f = *state;
    struct ing_head_chunks_filter filter = {.start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct ing_head_chunk open = make(0, 1, 1, 3, 1), sealed = make(0, 1, 1, 2, 1),
                          committed = make(0, 1, 1, 1, 1), *found;

    sealed.state = CHUNK_SEALED;
    committed.state = CHUNK_COMMITTED;
    committed.generation = 10;
    keep(f, &open);
    keep(f, &sealed);
    keep(f, &committed);
    filter.generation = 9;
    assert_int_equal(count_of(f, &filter, &found), 3);
    assert_same(&found[0], &committed);
    filter.generation = 10;
    assert_int_equal(count_of(f, &filter, &found), 2);
    assert_same(&found[0], &sealed);
    assert_same(&found[1], &open);
}

/* Thousands of chunks are added and removed: the others are found, memory stays bounded, each is
 * there once. */
static void removed_chunks_free_their_memory(void **state)
{
    enum { STEPS = 5000, KEPT = 10 };
    struct fixture *f = *state;
    struct ing_head_chunk of_group[4], *found;
    size_t most = 0;

    for (uint32_t i = 0; i < STEPS; i++) {
        struct ing_head_chunk chunk = make(i % 2, (uint16_t)(i % 2), 9, i, i);
        struct fg_store_batch batch;

        keep(f, &chunk);
        if (i < KEPT)
            continue;
        chunk.key.number -= KEPT;
        fg_store_batch_init(&batch);
        ing_head_chunk_delete(&chunk.key, &batch);
        write_batch(f->store, &batch);
        ing_head_chunks_remove(f->chunks, &chunk.key);
        ing_head_chunks_remove(f->chunks, &chunk.key); /* again is nothing */
        assert_false(ing_head_chunks_find(f->chunks, &chunk.key, &chunk));
        assert_int_equal(ing_head_chunks_of_group(f->chunks, &chunk.key.group, of_group, 4),
                         KEPT / 2);
        most = FG_MAX(most, ing_head_chunks_bytes(f->chunks));
    }
    assert_true(most < 100 * 1024);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(count_of(f,
                                  &(struct ing_head_chunks_filter){.any_tenant = true,
                                                                   .start_ns = INT64_MIN,
                                                                   .end_ns = INT64_MAX,
                                                                   .any_state = true},
                                  &found),
                         KEPT);
        for (size_t k = 0; k < KEPT; k++)
            assert_true(found[k].least_ns >= STEPS - KEPT);
        reopen(f);
    }
}

static void arena_limit_is_an_error(void **state)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; ing_head_chunks_have_room(f->chunks, 0, 1); i++) {
        struct ing_head_chunk chunk = make(0, 0, i, 0, 0);

        assert_true(i < 100000);
        ing_head_chunks_set(f->chunks, &chunk);
    }
    assert_false(ing_head_chunks_have_room(f->chunks, 1, 1));
}

/* Profiles of very many times fill the share of their tenant, and no more; and once all are gone
 * they take nothing. */
static void one_tenant_cannot_use_all_memory(void **state)
{
    struct fixture *f = *state;
    size_t empty = ing_head_chunks_bytes(f->chunks), shares[2];
    uint32_t n = 0;

    for (; ing_head_chunks_have_room(f->chunks, 0, 0.5); n++) {
        struct ing_head_chunk chunk = make(0, 0, n, 0, 0);

        assert_true(n < 100000);
        ing_head_chunks_set(f->chunks, &chunk);
    }
    shares[0] = ing_head_chunks_bytes(f->chunks) - empty;
    assert_in_range(shares[0], (1 << 20) / 3, (1 << 20) * 3 / 4); /* arrays double */
    assert_true(ing_head_chunks_have_room(f->chunks, 1, 0.5));
    for (uint32_t i = 0; ing_head_chunks_have_room(f->chunks, 1, 0.5); i++) {
        struct ing_head_chunk chunk = make(1, 0, i, 0, 0);

        ing_head_chunks_set(f->chunks, &chunk);
    }
    assert_true(ing_head_chunks_have_room(f->chunks, 2, 0.5));
    shares[1] = ing_head_chunks_bytes(f->chunks);
    for (uint32_t i = 0; i < n; i++)
        ing_head_chunks_remove(f->chunks,
                               &(struct ing_head_chunk){.key = make(0, 0, i, 0, 0).key}.key);
    assert_int_equal(ing_head_chunks_bytes(f->chunks), shares[1] - shares[0]);
}

static void deleting_a_chunk_deletes_its_profiles(void **state)
{
    struct fixture *f = *state;
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    for (uint32_t number = 1; number <= 3; number++) {
        struct ing_head_profile_key key = {
            .chunk = {{0, 1, 2}, number}, .series = UINT32_MAX, .time_ns = INT64_MAX};
        struct fg_buf bytes;

        fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
        ing_head_put_profile_key(&bytes, &key);
        fg_store_put(&batch, HEAD_PROFILES, fg_buf_slice(&bytes), FG_LIT("x"));
        fg_buf_done(&bytes);
    }
    ing_head_chunk_delete(&(struct ing_head_chunk_key){{0, 1, 2}, 2}, &batch);
    write_batch(f->store, &batch);
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(f->store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    for (uint32_t number = 1; number <= 3; number += 2) {
        struct ing_head_profile_key key;

        assert_true(iter->valid);
        assert_true(ing_head_get_profile_key(iter->key, &key));
        assert_int_equal(key.chunk.number, number);
        fg_store_iter_next(iter);
    }
    assert_false(iter->valid);
}

static void start_survives_an_unreadable_record(void **state)
{
    static const struct {
        const char *name;
        unsigned family;
        struct fg_slice key, value;
        unsigned repaired, set_aside;
    } cases[] = {
        {"short key", HEAD_CHUNKS, FG_LIT("\0\0\0\0\0"), FG_LIT(""), 1, 0},
        {"no value", HEAD_CHUNKS, FG_LIT("\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), FG_LIT(""), 1, 0},
        {"another state", HEAD_CHUNKS, FG_LIT("\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
         FG_LIT("\1\1\0\0\2\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0"), 1, 0},
        {"an unknown tenant", HEAD_CHUNKS, FG_LIT("\0\0\0\3\0\0\0\0\0\0\0\0\0\0"),
         FG_LIT("\1\1\0\0\2\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), 0, 1},
        {"no number", HEAD_META, FG_LIT("cut"), FG_LIT("\xff"), 1, 0},
        {"a profile with half a key", HEAD_PROFILES, FG_LIT("\0\0\0\0\0"), FG_LIT(""), 0, 1},
    };
    struct fixture *f = *state;

    (void)f;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
        struct fg_store_batch batch;

        print_message("  %s\n", cases[i].name);
        fg_store_batch_init(&batch);
        fg_store_put(&batch, cases[i].family, cases[i].key, cases[i].value);
        write_batch(store, &batch);
        ing_head_chunks_close(open_damaged(store, cases[i].repaired, cases[i].set_aside));
        fg_store_close(store);
    }
}

/* Profiles whose chunk has no record make one, that is committed by itself. */
static void missing_chunk_is_rebuilt_from_its_profiles(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    const struct ing_head_chunk_key lost = {{1, 7, 1000}, 4}, other = {{1, 7, 1001}, 0},
                                    strange = {{9, 7, 1000}, 0};
    const struct ing_head_chunk_key *const keys[] = {&lost, &lost, &other, &strange};
    struct ing_head_chunk whole = ing_head_chunk_empty(&lost), there = ing_head_chunk_empty(&other),
                          found;
    const struct ing_head_chunk *nameless;
    struct fg_store_batch batch;
    struct ing_head_chunks *chunks;
    size_t n_nameless;

    (void)f;
    fg_store_batch_init(&batch);
    for (unsigned i = 0; i < FG_COUNT(keys); i++) {
        const struct ing_head_profile_key key = {
            .chunk = *keys[i], .series = i, .time_ns = 100 + i, .id = {i + 1, 5}};
        struct fg_buf bytes;

        fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
        ing_head_put_profile_key(&bytes, &key);
        fg_store_put(&batch, HEAD_PROFILES, fg_buf_slice(&bytes), FG_LIT("record"));
        fg_buf_done(&bytes);
        if (i < 2)
            ing_head_chunk_add(&whole, key.time_ns, key.id, 6);
        else if (i == 2)
            ing_head_chunk_add(&there, key.time_ns, key.id, 6);
    }
    there.born = 11;
    ing_head_chunk_put(&there, &batch);
    write_batch(store, &batch);
    /* Repaired: the chunk, and the number of cuts. Set aside: what is of no known tenant. */
    chunks = open_damaged(store, 2, 1);
    nameless = ing_head_chunks_nameless(chunks, &n_nameless);
    assert_int_equal(n_nameless, 1);
    assert_int_equal(nameless->key.group.tenant, 9);
    assert_true(nameless->least_ns == ing_head_window_first_ns(1000));
    assert_int_equal(ing_head_chunks_cuts(chunks), 11);
    assert_true(ing_head_chunks_find(chunks, &lost, &found));
    assert_int_equal(found.state, CHUNK_ASIDE);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.bytes, 12);
    assert_int_equal(found.least_ns, 100);
    assert_int_equal(found.greatest_ns, 101);
    assert_true(fg_id_eq(found.digest, whole.digest));
    assert_true(ing_head_chunks_find(chunks, &other, &found));
    assert_int_equal(found.state, CHUNK_OPEN);
    ing_head_chunks_close(chunks);
    fg_store_close(store);
}

static void put_profile(struct fg_store_batch *batch, const struct ing_head_chunk_key *chunk)
{
    const struct ing_head_profile_key key = {.chunk = *chunk, .series = 3, .id = {1, 5}};
    struct fg_buf bytes;

    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    ing_head_put_profile_key(&bytes, &key);
    fg_store_put(batch, HEAD_PROFILES, fg_buf_slice(&bytes), FG_LIT("record"));
    fg_buf_done(&bytes);
}

/* After the last chunk of a group comes the next group, and not the group's first chunk. */
static void start_ends_despite_keys_with_the_greatest_numbers(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    const struct ing_head_chunk_key keys[] = {
        {{1, 7, 1000}, UINT32_MAX},
        {{1, UINT16_MAX, UINT32_MAX}, UINT32_MAX},
        {{2, 7, 1000}, 0},
        {{9, 7, 1000}, UINT32_MAX},
        {{UINT32_MAX, UINT16_MAX, UINT32_MAX}, UINT32_MAX},
    };
    struct ing_head_chunk recorded = ing_head_chunk_empty(&keys[0]), found;
    struct fg_store_batch batch;
    struct ing_head_chunks *chunks;
    size_t n_nameless;

    (void)f;
    fg_store_batch_init(&batch);
    for (size_t i = 0; i < FG_COUNT(keys); i++)
        put_profile(&batch, &keys[i]);
    ing_head_chunk_put(&recorded, &batch);
    write_batch(store, &batch);
    chunks = open_damaged(store, 1, 5);
    /* A number that no cut has given: the next chunk of the group would get one that is taken. */
    assert_false(ing_head_chunks_find(chunks, &keys[0], &found));
    assert_false(ing_head_chunks_find(chunks, &keys[1], &found));
    assert_true(ing_head_chunks_find(chunks, &keys[2], &found));
    (void)ing_head_chunks_nameless(chunks, &n_nameless);
    assert_int_equal(n_nameless, 2);
    ing_head_chunks_close(chunks);
    fg_store_close(store);
}

/* The number of the last cut is what new cuts go by: it is never less than what chunks say. */
static void lost_number_of_cuts_is_restored_from_chunks(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_head_chunk chunk = ing_head_chunk_empty(&(struct ing_head_chunk_key){{0, 1, 2}, 3});
    struct fg_store_batch batch;
    struct ing_head_chunks *chunks;

    (void)f;
    chunk.state = CHUNK_SEALED;
    chunk.cut = 9;
    fg_store_batch_init(&batch);
    ing_head_chunk_put(&chunk, &batch);
    write_batch(store, &batch);
    chunks = open_damaged(store, 1, 0);
    assert_int_equal(ing_head_chunks_cuts(chunks), 9);
    ing_head_chunks_close(chunks);
    fg_store_close(store);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(written_chunks_are_read_back),
        TEST(cuts_are_kept),
        TEST(chunks_are_selected_by_time),
        TEST(chunks_are_selected_by_generation),
        TEST(removed_chunks_free_their_memory),
        TEST(arena_limit_is_an_error),
        TEST(one_tenant_cannot_use_all_memory),
        TEST(deleting_a_chunk_deletes_its_profiles),
        TEST(start_survives_an_unreadable_record),
        TEST(missing_chunk_is_rebuilt_from_its_profiles),
        TEST(start_ends_despite_keys_with_the_greatest_numbers),
        TEST(lost_number_of_cuts_is_restored_from_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
