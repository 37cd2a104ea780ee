#include "tests/unit/ingester/forward/outbox_run.h"

#include "tests/lib/tenants.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GROUP_PROFILES = 20, ARENA_MAX_BYTES = 64 << 20 };

void outbox_clock_init(struct fg_clock_manual *clock)
{
    fg_clock_manual_init(clock, INT64_C(1700000000) * FG_SECOND_NS);
    clock->mono_ns = FG_HOUR_NS;
}

/* ---- life ---- */

uint32_t outbox_run_groups_max = UINT32_MAX;
const struct ing_deleted *outbox_run_deleted;

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fg_assert_failed(err->msg, __FILE__, __LINE__);
}

static bool wants_all(void *arg, struct fg_slice tenant)
{
    (void)arg;
    (void)tenant;
    return true;
}

struct ing_outbox_target outbox_target(const char *name)
{
    return (struct ing_outbox_target){
        .name = name, .wants = wants_all, .queue_max_bytes = UINT64_C(1) << 40};
}

/* The committer's thread. */
static void commit_nothing(void *arg, struct ing_commit_item *items)
{
    (void)arg;
    fg_assert(items == NULL);
}

static void after_commit(void *arg)
{
    struct outbox_run *run = arg;

    ing_head_writer_heal(run->writer);
    ing_outbox_settle(run->outbox);
}

static void keep_limits(struct fg_limit_settings *limits)
{
    limits->retention_period_ns = OUTBOX_RUN_KEPT_NS;
}

void outbox_run_open(struct outbox_run *run, struct fg_store *store, struct fg_clock_manual *clock,
                     const struct ing_outbox_target *targets, unsigned n_targets)
{
    const struct ing_forward forward = {targets, n_targets};
    struct fg_err err;

    *run = (struct outbox_run){.store = store, .clock = clock, .registry = fg_registry_create()};
    run->tenants = tenants_make(&run->limits, keep_limits, false, run->registry);
    must(ing_catalog_open(store, &(struct ing_catalog_bounds){1 << 20, 0}, &run->damage,
                          &run->catalog, &err),
         &err);
    /* The catalog takes no record of the outbox for one of its own. */
    fg_assert(run->damage.repaired + run->damage.set_aside == 0);
    must(ing_head_chunks_open(store, run->catalog, 1 << 20, &run->damage, &run->chunks, &err),
         &err);
    run->damage = (struct ing_damage){0}; /* that of the outbox alone: profiles have no chunks */
    run->writer = ing_head_writer_create(
        &(struct ing_head_writer_config){store, run->chunks, NULL, run->registry});
    must(ing_outbox_create(&(struct ing_outbox_config){.forward = &forward,
                                                       .store = store,
                                                       .writer = run->writer,
                                                       .catalog = run->catalog,
                                                       .tenants = run->tenants,
                                                       .deleted = outbox_run_deleted,
                                                       .damage = &run->damage,
                                                       .clock = &clock->clock,
                                                       .groups_max = outbox_run_groups_max},
                           &run->outbox, &err),
         &err);
    must(ing_committer_create(&(struct ing_committer_config){.commit = commit_nothing,
                                                             .after = after_commit,
                                                             .arg = run,
                                                             .queue_max_bytes = 1,
                                                             .clock = fg_clock_real(),
                                                             .registry = run->registry},
                              &run->committer, &err),
         &err);
    must(ing_outbox_start(run->outbox, run->committer, &err), &err);
}

void outbox_run_close(struct outbox_run *run)
{
    ing_outbox_stop(run->outbox);
    ing_committer_destroy(run->committer);
    ing_outbox_destroy(run->outbox);
    ing_head_writer_destroy(run->writer);
    ing_head_chunks_close(run->chunks);
    ing_catalog_close(run->catalog);
    tenants_free(run->tenants, &run->limits);
    fg_registry_destroy(run->registry);
}

/* ---- the committer's thread ---- */

struct waiting_visit {
    struct ing_committer_visit visit;
    void (*run)(void *arg);
    void *arg;
    sem_t done;
};

static void run_visit(struct ing_committer_visit *visit)
{
    struct waiting_visit *waiting = fg_container(visit, struct waiting_visit, visit);

    waiting->run(waiting->arg);
    fg_assert(sem_post(&waiting->done) == 0);
}

void outbox_run_visit(struct outbox_run *run, void (*visit)(void *arg), void *arg)
{
    struct waiting_visit waiting = {.visit.run = run_visit, .run = visit, .arg = arg};

    fg_assert(sem_init(&waiting.done, 0, 0) == 0);
    ing_committer_post(run->committer, &waiting.visit);
    while (sem_wait(&waiting.done) != 0)
        continue;
    (void)sem_destroy(&waiting.done);
}

struct ing_head_profile_key outbox_key(const struct outbox_run *run, uint64_t n)
{
    unsigned entered = ing_catalog_enter(run->catalog);
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(run->catalog, FG_LIT("tenant"));
    const struct ing_head_profile_key key = {
        .chunk = {.group = {ing_catalog_tenant_number(tenant), 7,
                            (uint32_t)(2830000 + n / GROUP_PROFILES)},
                  .number = 1},
        .series = 3,
        .time_ns = (int64_t)n,
        .id = {n, n + 1},
    };

    ing_catalog_leave(run->catalog, entered);
    return key;
}

struct pushing {
    struct outbox_run *run;
    uint32_t targets;
    uint64_t n;
    unsigned count;
    size_t bytes;
    enum fg_code code;
};

static void push(void *arg)
{
    static const struct ing_outbox_via via = {.stores = {{5, 6}}, .n = 1};
    struct pushing *pushing = arg;
    struct outbox_run *run = pushing->run;
    struct fg_store_batch batch, undo;
    struct fg_buf bytes, record;
    struct fg_err err;

    fg_store_batch_init(&batch);
    fg_store_batch_init(&undo);
    fg_buf_init(&bytes, SIZE_MAX);
    fg_buf_init(&record, SIZE_MAX);
    while (record.len < pushing->bytes)
        fg_buf_putc(&record, 'r');
    for (unsigned i = 0; i < pushing->count; i++) {
        const struct ing_head_profile_key key = outbox_key(run, pushing->n + i);

        fg_buf_clear(&bytes);
        ing_head_put_profile_key(&bytes, &key);
        fg_store_put(&batch, HEAD_PROFILES, fg_buf_slice(&bytes), fg_buf_slice(&record));
        fg_store_delete(&undo, HEAD_PROFILES, fg_buf_slice(&bytes));
        ing_outbox_add(run->outbox, pushing->targets, &key, pushing->bytes, &via, &batch, &undo);
    }
    pushing->code = ing_head_writer_write(run->writer, &batch, &undo, &err);
    ing_outbox_end(run->outbox, pushing->code == FG_OK);
    fg_buf_done(&record);
    fg_buf_done(&bytes);
    fg_store_batch_done(&batch);
    fg_store_batch_done(&undo);
}

enum fg_code outbox_run_push(struct outbox_run *run, uint32_t targets, uint64_t n, unsigned count,
                             size_t bytes)
{
    struct pushing pushing = {run, targets, n, count, bytes, FG_OK};

    outbox_run_visit(run, push, &pushing);
    return pushing.code;
}

void outbox_run_settle(struct outbox_run *run)
{
    const struct timespec pause = {.tv_nsec = 20 * FG_MS_NS};
    struct fg_err err;

    /* A pause that is no change is written with all that was reported before. If that fails, the
     * writer tries to heal the store after each visit. */
    while (ing_outbox_pause(run->outbox, 0, ing_outbox_numbers(run->outbox, 0).paused, &err) !=
           FG_OK)
        (void)nanosleep(&pause, NULL);
}

/* ---- the sender ---- */

static bool take(struct outbox_run *run, unsigned target, struct ing_outbox_span *ret_span)
{
    return ing_outbox_take(run->outbox, target, OUTBOX_FRESH, ret_span) ||
           ing_outbox_take(run->outbox, target, OUTBOX_BACKLOG, ret_span);
}

uint64_t outbox_run_drain(struct outbox_run *run, unsigned target, enum ing_outbox_outcome outcome,
                          unsigned *seen)
{
    struct ing_outbox_span span;
    struct fg_err err;
    uint64_t came = 0;

    while (take(run, target, &span)) {
        fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
        struct ing_outbox_item *items;
        size_t n;

        must(ing_outbox_read(run->outbox, &span, arena, &items, &n, &err), &err);
        assert_int_equal(n, span.count);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(items[i].outcome, OUTBOX_AGAIN);
            assert_int_equal(items[i].record.len, items[i].entry.bytes);
            if (seen != NULL)
                seen[items[i].entry.key.id.lo]++;
            items[i].outcome = outcome;
            items[i].reason = "no room for it";
        }
        came += n;
        ing_outbox_report(run->outbox, &span, items, n);
    }
    return came;
}

uint64_t outbox_count(struct fg_store *store, enum ing_head_family family)
{
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""));
    uint64_t n = 0;

    for (; iter->valid; fg_store_iter_next(iter))
        n++;
    assert_int_equal(iter->err.code, FG_OK);
    return n;
}

/* ---- the fixture ---- */

int outbox_set_up(void **state)
{
    struct outbox_fixture *f = fg_new(struct outbox_fixture);

    f->inner = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->inner);
    outbox_clock_init(&f->clock);
    f->targets[0] = outbox_target("central");
    f->targets[1] = outbox_target("other");
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, f->targets, 2);
    *state = f;
    return 0;
}

int outbox_tear_down(void **state)
{
    struct outbox_fixture *f = *state;

    outbox_run_close(&f->run);
    fg_store_close(f->inner);
    free(f);
    return 0;
}

void outbox_restart(struct outbox_fixture *f)
{
    outbox_run_close(&f->run);
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, f->targets, 2);
}

void outbox_push(struct outbox_fixture *f, uint32_t targets, uint64_t n, unsigned count)
{
    assert_int_equal(outbox_run_push(&f->run, targets, n, count, OUTBOX_RECORD_BYTES), FG_OK);
}

struct ing_outbox_numbers outbox_numbers(struct outbox_fixture *f, unsigned target)
{
    return ing_outbox_numbers(f->run.outbox, target);
}

void outbox_fail_write(struct outbox_fixture *f, uint64_t at, bool late)
{
    f->faulty.writes = 0;
    f->faulty.fail_at = at;
    f->faulty.fail_late = late;
}

struct ing_outbox_span outbox_take(struct outbox_fixture *f, unsigned target)
{
    struct ing_outbox_span span;

    assert_true(ing_outbox_take(f->run.outbox, target, OUTBOX_FRESH, &span) ||
                ing_outbox_take(f->run.outbox, target, OUTBOX_BACKLOG, &span));
    return span;
}

struct ing_outbox_item *outbox_read_span(struct outbox_fixture *f,
                                         const struct ing_outbox_span *span, struct fg_arena *arena,
                                         size_t *ret_count)
{
    struct ing_outbox_item *items = NULL;
    struct fg_err err;

    assert_int_equal(ing_outbox_read(f->run.outbox, span, arena, &items, ret_count, &err), FG_OK);
    return items;
}

bool outbox_nothing_waits(struct outbox_fixture *f, unsigned target)
{
    struct ing_outbox_span span;

    return !ing_outbox_take(f->run.outbox, target, OUTBOX_FRESH, &span) &&
           !ing_outbox_take(f->run.outbox, target, OUTBOX_BACKLOG, &span);
}
