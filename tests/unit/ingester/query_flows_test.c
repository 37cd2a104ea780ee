/* Tenants share the workers of queries: one that has as many queries as it likes keeps none of
 * another tenant waiting. Nothing here depends on time: a store holds the queries of one tenant
 * back until the other one has its answer. */
#include "proto/inner.pb-c.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { GREEDY = 8, QUESTIONS = 3 };

static const int64_t start_ns = INT64_C(1700000400) * FG_SECOND_NS;
static const struct head_sample samples[] = {{"main;work", {1, 10}, 0}};

/* ---- a store whose iterators wait ---- */

struct held_store {
    struct fg_store store;
    struct fg_store *inner;
    atomic_bool holds;
    sem_t waits, gate; /* an iterator is to move; it may move */
};

struct held_iter {
    struct fg_store_iter iter, *inner;
    struct held_store *store;
};

static void look(struct held_iter *held)
{
    held->iter.valid = held->inner->valid;
    held->iter.key = held->inner->key;
    held->iter.value = held->inner->value;
    held->iter.err = held->inner->err;
}

static void hold(struct held_store *store)
{
    if (atomic_load(&store->holds)) {
        assert_int_equal(sem_post(&store->waits), 0);
        assert_int_equal(sem_wait(&store->gate), 0);
    }
}

static void held_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    struct held_iter *held = fg_container(iter, struct held_iter, iter);

    hold(held->store);
    fg_store_iter_seek(held->inner, key);
    look(held);
}

static void held_next(struct fg_store_iter *iter)
{
    struct held_iter *held = fg_container(iter, struct held_iter, iter);

    hold(held->store);
    fg_store_iter_next(held->inner);
    look(held);
}

static void held_destroy(struct fg_store_iter *iter)
{
    struct held_iter *held = fg_container(iter, struct held_iter, iter);

    fg_store_iter_destroy(held->inner);
    free(held);
}

/* Queries read the profiles of a tenant by its number; all else goes on. */
static struct fg_store_iter *held_iter(struct fg_store *store, unsigned family,
                                       struct fg_slice from, struct fg_slice to)
{
    static const struct fg_store_iter_ops ops = {
        .seek = held_seek, .next = held_next, .destroy = held_destroy};
    struct held_store *held = fg_container(store, struct held_store, store);
    struct fg_store_iter *inner = fg_store_iter_create(held->inner, family, from, to);
    struct held_iter *iter;

    if (family != HEAD_PROFILES || from.len != sizeof(uint32_t))
        return inner;
    iter = fg_new(struct held_iter);
    *iter = (struct held_iter){.iter.ops = &ops, .inner = inner, .store = held};
    look(iter);
    return &iter->iter;
}

static enum fg_code held_write(struct fg_store *store, struct fg_store_batch *batch,
                               struct fg_err *err)
{
    return fg_store_write(fg_container(store, struct held_store, store)->inner, batch, err);
}

static enum fg_code held_heal(struct fg_store *store, struct fg_err *err)
{
    return fg_store_heal(fg_container(store, struct held_store, store)->inner, err);
}

static enum fg_code held_get(struct fg_store *store, unsigned family, struct fg_slice key,
                             struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    struct fg_store *inner = fg_container(store, struct held_store, store)->inner;

    return inner->ops->get(inner, family, key, out, ret_found, err);
}

static enum fg_code held_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                  bool *ret_found, struct fg_err *err)
{
    struct fg_store *inner = fg_container(store, struct held_store, store)->inner;

    return inner->ops->contains(inner, family, key, ret_found, err);
}

static uint64_t held_bytes(struct fg_store *store)
{
    (void)store;
    return 0;
}

static void held_init(struct held_store *held)
{
    static const struct fg_store_ops ops = {.write = held_write,
                                            .heal = held_heal,
                                            .get = held_get,
                                            .contains = held_contains,
                                            .iter = held_iter,
                                            .disk_bytes = held_bytes,
                                            .memory_bytes = held_bytes};

    *held = (struct held_store){.store = {.ops = &ops}, .inner = fg_store_memory(HEAD_FAMILIES)};
    assert_int_equal(sem_init(&held->waits, 0, 0) + sem_init(&held->gate, 0, 0), 0);
}

static void held_done(struct held_store *held)
{
    fg_store_close(held->inner);
    assert_int_equal(sem_destroy(&held->waits) + sem_destroy(&held->gate), 0);
}

/* ---- queries ---- */

static void push(struct head *head, const char *tenant)
{
    const struct head_profile profile = {.tenant = tenant,
                                         .service = "shop",
                                         .time_ns = start_ns,
                                         .samples = samples,
                                         .n_samples = FG_COUNT(samples)};

    assert_int_equal(head_push(head, &profile, true).stored, 1);
}

static struct head_query query_of(const char *tenant)
{
    return (struct head_query){
        .tenant = tenant, .type = "cpu:nanoseconds", .start_ns = start_ns, .end_ns = start_ns};
}

/* A call that its caller does not wait for. */
struct asked {
    struct fg_call call;
    uint8_t head[256];
    atomic_bool answered;
};

static void on_answer(struct fg_call *call)
{
    atomic_store(&fg_container(call, struct asked, call)->answered, true);
}

static void ask(struct head *head, char *tenant, struct asked *asked)
{
    Fg__Inner__Selection selection = FG__INNER__SELECTION__INIT;
    Fg__Inner__SelectHead message = FG__INNER__SELECT_HEAD__INIT;

    selection.tenant = tenant;
    selection.start_ns = selection.end_ns = start_ns;
    message.selection = &selection;
    asked->call = (struct fg_call){
        .method = FG_RPC_SELECT,
        .deadline_mono_ns = fg_time_add(fg_mono_ns(fg_clock_real()), FG_HOUR_NS),
        .head = fg_bytes(asked->head, fg__inner__select_head__pack(&message, asked->head)),
        .done = on_answer,
    };
    fg_peer_send(head->peer, &asked->call);
}

static void queries_of_a_tenant_wait_for_no_other(void **state)
{
    static char greedy[] = "greedy";
    static struct asked asked[GREEDY];
    struct head_query query = query_of("modest");
    struct held_store held;
    struct head head;
    struct fg_buf text;

    (void)state;
    held_init(&held);
    head_open(&head, &held.store);
    push(&head, greedy);
    push(&head, "modest");
    atomic_store(&held.holds, true);
    for (size_t i = 0; i < GREEDY; i++)
        ask(&head, greedy, &asked[i]);
    assert_int_equal(sem_wait(&held.waits), 0); /* the only worker is taken */
    atomic_store(&held.holds, false);
    fg_buf_init(&text, SIZE_MAX);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        fg_buf_clear(&text);
        assert_int_equal(head_select(&head, &query, &text), FG_OK);
        assert_int_equal(text.len, strlen("main;work 10\n"));
    }
    fg_buf_done(&text);
    for (size_t i = 0; i < GREEDY; i++)
        assert_false(atomic_load(&asked[i].answered));
    assert_int_equal(sem_post(&held.gate), 0);
    for (size_t i = 0; i < GREEDY; i++) {
        while (!atomic_load(&asked[i].answered))
            (void)sched_yield();
        assert_int_equal(asked[i].call.code, FG_OK);
        fg_call_done(head.peer, &asked[i].call);
    }
    head_close(&head);
    held_done(&held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_of_a_tenant_wait_for_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
