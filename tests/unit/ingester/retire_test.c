/* Dictionaries and services leave the store when nothing can name them any more, and not before. */
#include "ingester/retire.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct fg_store *inner, *store; /* store: inner, made to fail */
    struct fg_store_faulty faulty;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_dict_table *dicts;
    struct fg_registry *registry;
    struct ing_head_writer *writer;
    struct ing_retire *retire;
    struct ing_catalog_service *service;
    uint32_t base; /* generation that the start began: others are told from there */
};

static void start(struct fixture *f)
{
    struct ing_damage damage = {0};
    struct fg_err err;

    assert_int_equal(ing_head_chunks_open(f->store, f->catalog, 1 << 20, &damage, &f->chunks, &err),
                     FG_OK);
    assert_int_equal(damage.repaired + damage.set_aside, 0);
    f->dicts = ing_dict_table_create(f->store, 1 << 20);
    f->registry = fg_registry_create();
    f->writer = ing_head_writer_create(
        &(struct ing_head_writer_config){f->store, f->chunks, NULL, f->registry});
    assert_int_equal(ing_retire_create(&(struct ing_retire_config){f->store, f->catalog, f->dicts,
                                                                   f->chunks, f->writer},
                                       &f->retire, &err),
                     FG_OK);
}

static void stop(struct fixture *f)
{
    ing_retire_destroy(f->retire);
    ing_head_writer_destroy(f->writer);
    fg_registry_destroy(f->registry);
    ing_dict_table_destroy(f->dicts);
    ing_head_chunks_close(f->chunks);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct ing_damage damage = {0};
    struct fg_err err;

    f->inner = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->inner);
    f->store = &f->faulty.store;
    assert_int_equal(ing_catalog_open(f->store, &(struct ing_catalog_bounds){1 << 20, 0}, &damage,
                                      &f->catalog, &err),
                     FG_OK);
    f->service = ing_catalog_service(f->catalog, ing_catalog_tenant(f->catalog, FG_LIT("t")),
                                     FG_LIT("shop"), &(struct ing_catalog_quota){.share = 1});
    start(f);
    f->base = atomic_load(&f->service->generation);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    stop(f);
    ing_catalog_close(f->catalog);
    fg_store_close(f->inner);
    free(f);
    return 0;
}

static void write_batch(struct fixture *f, struct fg_store_batch *batch)
{
    struct fg_err err;

    assert_int_equal(fg_store_write(f->store, batch, &err), FG_OK);
    fg_store_batch_done(batch);
}

/* A chunk of the service's dictionary, whatever is in it. */
static void put_chunk(struct fixture *f, uint32_t generation)
{
    struct fg_store_batch batch;
    struct fg_buf key;

    fg_buf_init(&key, 64);
    fg_buf_be32(&key, f->service->number);
    fg_buf_be32(&key, f->base + generation);
    fg_buf_be32(&key, 0);
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_DICT, fg_buf_slice(&key), FG_LIT("x"));
    fg_buf_done(&key);
    write_batch(f, &batch);
}

static bool is_stored(struct fixture *f, uint32_t generation)
{
    struct fg_err err;
    bool stored;

    assert_int_equal(
        ing_dict_stored(f->store, f->service->number, f->base + generation, &stored, &err), FG_OK);
    return stored;
}

/* A chunk that begins now. */
static struct ing_head_chunk_key begin_chunk(struct fixture *f, uint32_t window)
{
    const struct ing_head_chunk_key key = {{0, 0, window}, ing_head_chunks_cuts(f->chunks)};
    struct ing_head_chunk chunk = ing_head_chunk_empty(&key);

    chunk.born = ing_head_chunks_cuts(f->chunks);
    ing_head_chunk_add(&chunk, 0, (struct fg_id){1, 1}, 1);
    ing_head_chunks_set(f->chunks, &chunk);
    return key;
}

static void cut(struct fixture *f)
{
    struct fg_err err;

    ing_head_chunks_set_cuts(f->chunks, ing_head_chunks_cuts(f->chunks) + 1);
    assert_int_equal(ing_retire_cut(f->retire, &err), FG_OK);
}

static void sweep(struct fixture *f)
{
    struct fg_err err;

    assert_int_equal(ing_retire_sweep(f->retire, &err), FG_OK);
}

static void dictionaries_are_deleted_after_chunks_that_name_them(void **state)
{
    struct fixture *f = *state;
    struct ing_head_chunk_key before, between;

    put_chunk(f, 0);
    before = begin_chunk(f, 1);
    cut(f);
    assert_int_equal(atomic_load(&f->service->generation), f->base + 1);
    /* A push that had its number before the cut may write to chunks that begin until the sweep. */
    between = begin_chunk(f, 2);
    assert_int_equal(atomic_load(&f->service->valid_from), 0);
    sweep(f);
    assert_int_equal(atomic_load(&f->service->valid_from), f->base + 1);
    ing_head_chunks_remove(f->chunks, &before);
    for (int i = 0; i < 3; i++)
        sweep(f);
    assert_true(is_stored(f, 0));
    cut(f); /* nothing was written since: no new generation */
    assert_int_equal(atomic_load(&f->service->generation), f->base + 1);
    (void)begin_chunk(f, 3);
    ing_head_chunks_remove(f->chunks, &between);
    sweep(f); /* a query may have found the chunk a moment ago */
    assert_true(is_stored(f, 0));
    assert_int_equal(ing_retire_count(f->retire), 1);
    sweep(f);
    assert_false(is_stored(f, 0));
    assert_int_equal(ing_retire_count(f->retire), 0);
}

/* Each generation costs senders all definitions, and a server that catches up has many cuts. */
static void generations_begin_once_between_two_sweeps(void **state)
{
    struct fixture *f = *state;

    put_chunk(f, 0);
    cut(f);
    put_chunk(f, 1);
    for (int i = 0; i < 3; i++)
        cut(f);
    assert_int_equal(atomic_load(&f->service->generation), f->base + 1);
    assert_int_equal(ing_retire_count(f->retire), 1);
    sweep(f);
    for (int i = 0; i < 3; i++)
        cut(f);
    assert_int_equal(atomic_load(&f->service->generation), f->base + 2);
    for (int i = 0; i < 4; i++)
        sweep(f);
    assert_false(is_stored(f, 0) || is_stored(f, 1));
    assert_int_equal(ing_retire_count(f->retire), 0);
}

static void dictionaries_in_use_are_kept(void **state)
{
    struct fixture *f = *state;
    struct ing_dict *dict;
    struct fg_err err;

    assert_int_equal(ing_dict_ref(f->dicts, f->service->number, f->base, &dict, &err), FG_OK);
    put_chunk(f, 0);
    cut(f);
    for (int i = 0; i < 5; i++)
        sweep(f);
    assert_int_equal(atomic_load(&f->service->valid_from), 0);
    assert_true(is_stored(f, 0));
    ing_dict_unref(f->dicts, dict);
    for (int i = 0; i < 3; i++)
        sweep(f);
    assert_false(is_stored(f, 0));
}

/* A failed write or a dictionary that has outgrown its share ends a generation between two cuts; a
 * service that loses room in the commit queue ends some that have nothing stored. */
static void generations_that_end_between_cuts_are_deleted(void **state)
{
    struct fixture *f = *state;
    struct ing_head_chunk_key before;

    put_chunk(f, 0);
    put_chunk(f, 1);
    put_chunk(f, 3);
    before = begin_chunk(f, 1);
    for (uint32_t generation = 0; generation < 5; generation++)
        ing_catalog_end_generation(f->service, f->base + generation);
    cut(f);
    assert_int_equal(atomic_load(&f->service->generation), f->base + 5); /* has nothing stored */
    assert_int_equal(ing_retire_count(f->retire), 3);
    sweep(f);
    put_chunk(f, 5);
    ing_catalog_end_generation(f->service, f->base + 5);
    put_chunk(f, 6);
    cut(f);
    assert_int_equal(atomic_load(&f->service->generation), f->base + 7);
    cut(f);
    assert_int_equal(ing_retire_count(f->retire), 5); /* each once */
    for (int i = 0; i < 5; i++)
        sweep(f);
    assert_true(is_stored(f, 0) && is_stored(f, 1) && is_stored(f, 3) && is_stored(f, 6));
    ing_head_chunks_remove(f->chunks, &before);
    for (int i = 0; i < 2; i++)
        sweep(f);
    for (uint32_t generation = 0; generation < 8; generation++)
        assert_false(is_stored(f, generation));
    assert_int_equal(ing_retire_count(f->retire), 0);
    assert_int_equal(f->service->retiring, 0);
}

/* The store may have less than it had: no number is given that a lost dictionary may have given. */
static void restart_finds_dictionaries_and_begins_a_generation(void **state)
{
    struct fixture *f = *state;

    put_chunk(f, 2);
    put_chunk(f, 5);
    put_chunk(f, 7);
    stop(f);
    start(f);
    assert_true(atomic_load(&f->service->generation) > f->base + 7);
    assert_int_equal(ing_retire_count(f->retire), 3);
    for (int i = 0; i < 3; i++)
        sweep(f);
    assert_false(is_stored(f, 2)); /* there are no chunks at all */
    assert_false(is_stored(f, 5));
    assert_false(is_stored(f, 7));
    assert_int_equal(ing_retire_count(f->retire), 0);
}

/* The number of a service and a generation that nobody can have given. */
static void start_survives_absurd_numbers(void **state)
{
    struct fixture *f = *state;
    struct ing_damage damage = {0};
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_META, FG_LIT("tt"), FG_LIT("\0"));
    ing_catalog_put_service(f->service, &batch);
    fg_store_put(&batch, HEAD_META, FG_LIT("s\0\0\0\0archive"), FG_LIT("\xf0\xff\xff\xff\x0f"));
    write_batch(f, &batch);
    put_chunk(f, 0);
    put_chunk(f, UINT32_MAX - f->base);
    stop(f);
    ing_catalog_close(f->catalog);
    assert_int_equal(ing_catalog_open(f->store, &(struct ing_catalog_bounds){1 << 20, 0}, &damage,
                                      &f->catalog, &err),
                     FG_OK);
    f->service = ing_catalog_service(f->catalog, ing_catalog_find_tenant(f->catalog, FG_LIT("t")),
                                     FG_LIT("shop"), &(struct ing_catalog_quota){.share = 1});
    start(f);
    assert_int_equal(ing_retire_count(f->retire), 1);
    assert_in_range(atomic_load(&f->service->generation), f->base + 1, f->base + 1 + UINT16_MAX);
}

static void failed_deletes_are_repeated(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    put_chunk(f, 0);
    cut(f);
    sweep(f);
    sweep(f);
    f->faulty.fail_at = f->faulty.writes + 1;
    assert_int_equal(ing_retire_sweep(f->retire, &err), FG_E_UNAVAILABLE);
    assert_true(is_stored(f, 0));
    sweep(f);
    assert_false(is_stored(f, 0));
    assert_int_equal(ing_retire_count(f->retire), 0);
}

/* ---- services ---- */

static void count_service(struct ing_catalog_service *service, void *arg)
{
    (void)service;
    (*(size_t *)arg)++;
}

static size_t count_services(struct fixture *f)
{
    size_t count = 0;

    ing_catalog_each_service(f->catalog, count_service, &count);
    return count;
}

static size_t count_keys(struct fixture *f, struct fg_slice from, struct fg_slice to)
{
    struct fg_store_iter *iter = fg_store_iter_create(f->store, HEAD_META, from, to);
    size_t count = 0;

    for (; iter->valid; fg_store_iter_next(iter))
        count++;
    fg_store_iter_destroy(iter);
    return count;
}

static void sweep_series(struct fixture *f)
{
    struct fg_err err;

    /* Epochs have to end. */
    for (int i = 0; i < 4; i++)
        assert_int_equal(ing_retire_series(f->retire, &err), FG_OK);
}

static void services_are_retired_after_their_dictionaries(void **state)
{
    struct fixture *f = *state;
    struct ing_head_chunk_key chunk;
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    ing_catalog_put_service(f->service, &batch);
    write_batch(f, &batch);
    put_chunk(f, 0);
    chunk = begin_chunk(f, 1);
    sweep_series(f); /* it goes on with this dictionary */
    assert_int_equal(count_services(f), 1);
    cut(f);
    sweep_series(f);
    ing_head_chunks_remove(f->chunks, &chunk);
    for (int i = 0; i < 3; i++) {
        assert_true(is_stored(f, 0));
        sweep_series(f);
        assert_int_equal(count_services(f), 1);
        sweep(f);
    }
    assert_false(is_stored(f, 0));
    assert_int_equal(count_keys(f, FG_LIT("s"), FG_LIT("t")), 1);
    sweep_series(f);
    assert_int_equal(count_services(f), 0);
    assert_int_equal(count_keys(f, FG_LIT("s"), FG_LIT("t")), 0);
    /* One that comes back has another number, and so another dictionary. */
    f->service = ing_catalog_service(f->catalog, ing_catalog_find_tenant(f->catalog, FG_LIT("t")),
                                     FG_LIT("shop"), &(struct ing_catalog_quota){.share = 1});
    assert_int_equal(f->service->number, 1);
    assert_int_equal(atomic_load(&f->service->generation), 0);
}

/* Failed deletes are repeated before anything else is retired. */
static void retired_records_are_deleted_despite_failures(void **state)
{
    struct fixture *f = *state;
    struct fg_store_batch batch;
    struct fg_err err;
    int failed = 0;

    fg_store_batch_init(&batch);
    ing_catalog_put_service(f->service, &batch);
    write_batch(f, &batch);
    for (int i = 0; i < 8; i++) {
        f->faulty.fail_at = f->faulty.writes + 1;
        failed += ing_retire_series(f->retire, &err) != FG_OK;
    }
    assert_in_range(failed, 2, 8);
    assert_int_equal(count_services(f), 0);
    assert_int_equal(count_keys(f, FG_LIT("s"), FG_LIT("t")), 1);
    f->faulty.fail_at = 0;
    assert_int_equal(ing_retire_series(f->retire, &err), FG_OK);
    assert_int_equal(count_keys(f, FG_LIT("s"), FG_LIT("t")), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(dictionaries_are_deleted_after_chunks_that_name_them),
        TEST(generations_begin_once_between_two_sweeps),
        TEST(dictionaries_in_use_are_kept),
        TEST(generations_that_end_between_cuts_are_deleted),
        TEST(restart_finds_dictionaries_and_begins_a_generation),
        TEST(start_survives_absurd_numbers),
        TEST(failed_deletes_are_repeated),
        TEST(services_are_retired_after_their_dictionaries),
        TEST(retired_records_are_deleted_despite_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
