/* The second half of a comparison by itself, piece by piece: after each one every profile is in one
 * chunk, the sums of the chunks are right, and what comes in between does no harm. */
#include "ingester/segments/compare.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PROFILES = 30, RECORD_BYTES = 50, PIECE_BYTES = 300, CHUNKS_MAX = 8 };

static const struct ing_head_group_key group = {.tenant = 0, .shard = 2, .window = 1000};

struct fixture {
    struct fg_store *inner;
    struct fg_store_faulty faulty;
    struct fg_registry *registry;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_head_writer *writer;
    uint32_t open, next; /* as the core would have them */
    unsigned n_splits;   /* questions */
    struct ing_compare compare;
    struct ing_compare_group compared;
    struct fg_id ids[PROFILES];
};

static struct fg_id id_of(uint64_t n)
{
    return (struct fg_id){n + 1, 0};
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct ing_damage damage = {0};
    struct fg_err err;

    f->inner = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->inner);
    f->registry = fg_registry_create();
    assert_int_equal(ing_catalog_open(&f->faulty.store, &(struct ing_catalog_bounds){1 << 20, 0},
                                      &damage, &f->catalog, &err),
                     FG_OK);
    assert_int_equal(
        ing_head_chunks_open(&f->faulty.store, f->catalog, 1 << 20, &damage, &f->chunks, &err),
        FG_OK);
    f->writer = ing_head_writer_create(
        &(struct ing_head_writer_config){&f->faulty.store, f->chunks, NULL, f->registry});
    f->compared = (struct ing_compare_group){.key = group, .committed.ids = f->ids};
    f->compare = (struct ing_compare){
        .groups = &f->compared, .n_groups = 1, .generation = 5, .arena = fg_arena_create(1 << 10)};
    f->faulty.max_bytes = PIECE_BYTES + 500; /* a profile under two keys, and two chunks */
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ing_compare_done(&f->compare);
    ing_head_writer_destroy(f->writer);
    ing_head_chunks_close(f->chunks);
    ing_catalog_close(f->catalog);
    fg_registry_destroy(f->registry);
    fg_store_close(f->inner);
    free(f);
    return 0;
}

/* The bucket has every profile with an even number. */
static bool is_held(uint64_t n)
{
    return n % 2 == 0;
}

static void know_held(struct fixture *f)
{
    for (uint64_t n = 0; n < PROFILES; n++)
        if (is_held(n))
            f->ids[f->compared.committed.n++] = id_of(n);
}

/* Stores a profile as a push would. */
static void store(struct fixture *f, uint32_t number, enum ing_chunk_state chunk_state, uint64_t n)
{
    const uint8_t record[RECORD_BYTES] = {0};
    const struct ing_head_profile_key key = {
        .chunk = {group, number}, .series = 1, .time_ns = (int64_t)n, .id = id_of(n)};
    struct ing_head_chunk chunk;
    struct fg_store_batch batch;
    struct fg_buf bytes;
    struct fg_err err;

    if (!ing_head_chunks_find(f->chunks, &key.chunk, &chunk))
        chunk = ing_head_chunk_empty(&key.chunk);
    chunk.state = chunk_state;
    ing_head_chunk_add(&chunk, key.time_ns, key.id, sizeof record);
    fg_store_batch_init(&batch);
    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    ing_head_put_profile_key(&bytes, &key);
    fg_store_put(&batch, HEAD_PROFILES, fg_buf_slice(&bytes), fg_bytes(record, sizeof record));
    ing_head_chunk_put(&chunk, &batch);
    assert_int_equal(ing_head_writer_write(f->writer, &batch, NULL, &err), FG_OK);
    ing_head_chunks_set(f->chunks, &chunk);
    fg_buf_done(&bytes);
    fg_store_batch_done(&batch);
    f->next = FG_MAX(f->next, number + 1);
}

/* ---- the core's part ---- */

static uint32_t leftover(void *arg, const struct ing_head_chunk_key *chunk)
{
    const struct fixture *f = arg;

    return f->open != chunk->number ? f->open : f->next;
}

static uint32_t split(void *arg, const struct ing_head_group_key *key)
{
    struct fixture *f = arg;

    assert_true(ing_head_same_group(key, &group));
    f->n_splits++;
    return f->next + 1;
}

static size_t list(struct fixture *f, struct ing_head_chunk chunks[CHUNKS_MAX])
{
    size_t n = ing_head_chunks_of_group(f->chunks, &group, chunks, CHUNKS_MAX);

    assert_true(n <= CHUNKS_MAX);
    return n;
}

/* Counts what the store has of a chunk; marks each profile, which must be marked nowhere else. */
static struct ing_head_chunk count(struct fixture *f, const struct ing_head_chunk_key *key,
                                   bool *seen)
{
    struct ing_head_chunk counted = ing_head_chunk_empty(key);
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(f->inner, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));

    for (; iter->valid; fg_store_iter_next(iter)) {
        struct ing_head_profile_key profile;

        assert_true(ing_head_get_profile_key(iter->key, &profile));
        if (!ing_head_same_chunk(&profile.chunk, key))
            continue;
        assert_false(seen[profile.id.lo - 1]);
        seen[profile.id.lo - 1] = true;
        ing_head_chunk_add(&counted, profile.time_ns, profile.id, iter->value.len);
    }
    return counted;
}

/* Every profile is in one chunk, no committed chunk has one that the bucket lacks, and sums are
 * those of the profiles. */
static void check(struct fixture *f, uint64_t n_profiles)
{
    struct ing_head_chunk chunks[CHUNKS_MAX];
    size_t n = list(f, chunks);
    bool seen[PROFILES] = {false};

    for (size_t i = 0; i < n; i++) {
        bool before[PROFILES];
        struct ing_head_chunk counted;

        memcpy(before, seen, sizeof seen);
        counted = count(f, &chunks[i].key, seen);
        assert_int_equal(counted.count, chunks[i].count);
        assert_int_equal(counted.bytes, chunks[i].bytes);
        assert_true(fg_id_eq(counted.digest, chunks[i].digest));
        assert_true(chunks[i].least_ns <= counted.least_ns);
        assert_true(chunks[i].greatest_ns >= counted.greatest_ns);
        assert_true(chunks[i].state != CHUNK_COMMITTED || chunks[i].generation == 5);
        for (uint64_t p = 0; p < PROFILES; p++)
            assert_true(seen[p] == before[p] || chunks[i].state != CHUNK_COMMITTED || is_held(p));
    }
    for (uint64_t p = 0; p < n_profiles; p++)
        assert_true(seen[p]);
}

/* Returns true if there is more. */
static bool apply(struct fixture *f)
{
    const struct ing_compare_head head = {.store = &f->faulty.store,
                                          .catalog = f->catalog,
                                          .chunks = f->chunks,
                                          .writer = f->writer,
                                          .piece_bytes = PIECE_BYTES};
    const struct ing_compare_targets targets = {leftover, split, f};
    struct fg_err err;

    if (ing_compare_apply(&head, &f->compare, &targets, &err) != FG_OK)
        fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < f->compare.n_outcomes; i++)
        f->next = FG_MAX(f->next, f->compare.outcomes[i].to + 1);
    return f->compare.more;
}

/* All that is left outside of committed chunks is what the bucket lacks. */
static void expect_separated(struct fixture *f)
{
    struct ing_head_chunk chunks[CHUNKS_MAX];
    size_t n = list(f, chunks);

    for (size_t i = 0; i < n; i++) {
        bool seen[PROFILES] = {false};

        if (chunks[i].state == CHUNK_COMMITTED)
            continue;
        (void)count(f, &chunks[i].key, seen);
        for (uint64_t p = 0; p < PROFILES; p++)
            assert_true(!seen[p] || !is_held(p));
    }
}

static void every_piece_leaves_each_profile_in_one_chunk(void **state)
{
    struct fixture *f = *state;
    unsigned pieces = 0;

    know_held(f);
    for (uint64_t n = 0; n < PROFILES; n++)
        store(f, 0, CHUNK_OPEN, n);
    for (bool more = true; more; pieces++) {
        assert_true(pieces < PROFILES);
        more = apply(f);
        check(f, PROFILES);
        /* Until the end pushes of the group are to be looked up. */
        assert_int_equal(f->compare.n_missing, more);
    }
    expect_separated(f);
    assert_true(pieces > 3);
    assert_int_equal(f->n_splits, 1); /* one chunk for all pieces */
}

/* The chunk is sealed between two pieces, and what comes then goes into another one. */
static void chunk_that_is_sealed_between_pieces_is_separated(void **state)
{
    struct fixture *f = *state;
    struct ing_head_chunk sealed;

    know_held(f);
    for (uint64_t n = 0; n < PROFILES - 2; n++)
        store(f, 0, CHUNK_OPEN, n);
    assert_true(apply(f));
    assert_true(ing_head_chunks_find(f->chunks, &(struct ing_head_chunk_key){group, 0}, &sealed));
    sealed.state = CHUNK_SEALED;
    ing_head_chunks_set(f->chunks, &sealed);
    f->open = f->next;
    store(f, f->open, CHUNK_OPEN, PROFILES - 2);
    store(f, f->open, CHUNK_OPEN, PROFILES - 1);
    while (apply(f))
        check(f, PROFILES);
    check(f, PROFILES);
    expect_separated(f);
}

/* The committed chunk is evicted between two pieces, and what had its number goes elsewhere. */
static void evicted_chunk_takes_no_more_profiles(void **state)
{
    struct fixture *f = *state;
    struct ing_head_chunk chunks[CHUNKS_MAX];
    struct fg_store_batch batch;
    struct fg_err err;
    size_t n;

    know_held(f);
    for (uint64_t p = 0; p < PROFILES; p++)
        store(f, 0, CHUNK_OPEN, p);
    assert_true(apply(f));
    n = list(f, chunks);
    fg_store_batch_init(&batch);
    for (size_t i = 0; i < n; i++) {
        if (chunks[i].state != CHUNK_COMMITTED)
            continue;
        ing_head_chunk_delete(&chunks[i].key, &batch);
        ing_head_chunks_remove(f->chunks, &chunks[i].key);
    }
    assert_int_equal(ing_head_writer_write(f->writer, &batch, NULL, &err), FG_OK);
    fg_store_batch_done(&batch);
    while (apply(f))
        check(f, 0);
    check(f, 0);
    expect_separated(f);
    assert_int_equal(f->n_splits, 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_piece_leaves_each_profile_in_one_chunk),
        TEST(chunk_that_is_sealed_between_pieces_is_separated),
        TEST(evicted_chunk_takes_no_more_profiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
