/* The committer's thread: groups, order, limits and visits, with a commit that only takes notes. */
#include "common/base/time.h"
#include "ingester/committer.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ITEMS = 200, SERVICES = 2, RECORD_BYTES = 8 * 1024, LARGE_RECORD_BYTES = 64 * 1024 };

struct fixture {
    struct fg_registry *registry;
    struct fg_clock_manual clock; /* of how long items have waited; sleeps are real */
    struct ing_committer *committer;
    pthread_mutex_t lock; /* held by a test to hold up the committer's thread in commit() */
    sem_t visited, began; /* groups */
    unsigned n_groups, n_after, n_done;
    size_t largest;            /* group */
    unsigned order[2 * ITEMS]; /* of items and visits, as they came */
    unsigned n_order;
    struct ing_catalog_service services[SERVICES];
    struct ing_commit_item items[ITEMS];
    struct ing_committer_visit visits[ITEMS];
};

static struct fixture *the_fixture; /* done() and run() get no argument */

static void on_done(struct ing_commit_item *item)
{
    struct fixture *f = the_fixture;

    f->order[f->n_order++] = (unsigned)(item - f->items);
    f->n_done++;
}

static void on_visit(struct ing_committer_visit *visit)
{
    struct fixture *f = the_fixture;

    f->order[f->n_order++] = ITEMS + (unsigned)(visit - f->visits);
    assert_int_equal(sem_post(&f->visited), 0);
}

static void commit(void *arg, struct ing_commit_item *items)
{
    struct fixture *f = arg;
    size_t n = 0;

    assert_int_equal(sem_post(&f->began), 0);
    (void)pthread_mutex_lock(&f->lock);
    f->n_groups++;
    while (items != NULL) {
        struct ing_commit_item *item = items;

        items = item->next;
        item->done(item);
        n++;
    }
    f->largest = FG_MAX(f->largest, n);
    (void)pthread_mutex_unlock(&f->lock);
}

static void after(void *arg)
{
    struct fixture *f = arg;

    f->n_after++;
}

static struct fixture *start(uint64_t queue_max_bytes, int64_t delay_ns)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    the_fixture = f;
    f->registry = fg_registry_create();
    fg_clock_manual_init(&f->clock, 0);
    f->clock.mono_ns = fg_mono_ns(fg_clock_real());
    (void)pthread_mutex_init(&f->lock, NULL);
    assert_int_equal(sem_init(&f->visited, 0, 0), 0);
    assert_int_equal(sem_init(&f->began, 0, 0), 0);
    for (int i = 0; i < ITEMS; i++) {
        ing_commit_item_init(&f->items[i]);
        f->items[i].done = on_done;
        f->items[i].service = &f->services[0];
        f->visits[i].run = on_visit;
    }
    assert_int_equal(ing_committer_create(
                         &(struct ing_committer_config){
                             .commit = commit,
                             .after = after,
                             .arg = f,
                             .queue_max_bytes = queue_max_bytes,
                             .delay_ns = delay_ns,
                             .clock = &f->clock.clock,
                             .registry = f->registry,
                         },
                         &f->committer, &err),
                     FG_OK);
    return f;
}

/* Ends the thread; then the notes are complete. */
static void stop(struct fixture *f)
{
    ing_committer_destroy(f->committer);
    f->committer = NULL;
}

static void end(struct fixture *f)
{
    for (int i = 0; i < ITEMS; i++)
        ing_commit_item_done(&f->items[i]);
    fg_registry_destroy(f->registry);
    (void)pthread_mutex_destroy(&f->lock);
    (void)sem_destroy(&f->visited);
    (void)sem_destroy(&f->began);
    free(f);
}

/* Waits for something that comes soon, and not after an hour. */
static void wait_soon(sem_t *sem)
{
    struct timespec until;

    assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += 60;
    assert_int_equal(sem_timedwait(sem, &until), 0);
}

static void items_are_committed_in_order_and_answered_before_the_end(void **state)
{
    struct fixture *f = start(UINT64_MAX, 0);

    (void)state;
    for (int i = 0; i < ITEMS; i++)
        ing_committer_submit(f->committer, &f->items[i]);
    stop(f);
    assert_int_equal(f->n_done, ITEMS);
    for (unsigned i = 0; i < ITEMS; i++)
        assert_int_equal(f->order[i], i);
    assert_true(f->n_after >= f->n_groups && f->n_groups > 0);
    end(f);
}

static void items_that_wait_share_a_group(void **state)
{
    struct fixture *f = start(UINT64_MAX, 0);

    (void)state;
    (void)pthread_mutex_lock(&f->lock);
    for (int i = 0; i < ITEMS; i++)
        ing_committer_submit(f->committer, &f->items[i]);
    (void)pthread_mutex_unlock(&f->lock);
    stop(f);
    /* The first group began with at least one item, and all others wait behind it. */
    assert_true(f->n_groups <= 2);
    assert_true(f->largest >= ITEMS / 2);
    end(f);
}

static void full_queue_has_no_room_and_an_empty_one_has_it_for_any_item(void **state)
{
    struct fixture *f = start(1, 0); /* any item is larger */
    int taken = 0;

    (void)state;
    (void)pthread_mutex_lock(&f->lock);
    /* At most one item is with commit(), which waits, and one in the queue. */
    for (int i = 0; i < ITEMS; i++)
        if (ing_committer_has_room(f->committer, false))
            ing_committer_submit(f->committer, &f->items[taken++]);
    assert_in_range(taken, 1, 2);
    (void)pthread_mutex_unlock(&f->lock);
    stop(f);
    assert_int_equal(f->n_done, taken);
    end(f);
}

/* ---- what is forwarded ---- */

/* Submits the first item and waits until it is with commit(), which the caller's lock holds up: all
 * others are in the queues then. */
static void hold_up(struct fixture *f)
{
    ing_committer_submit(f->committer, &f->items[0]);
    wait_soon(&f->began);
}

static void forward(struct fixture *f, unsigned from, unsigned to, unsigned service)
{
    for (unsigned i = from; i < to; i++) {
        f->items[i].via.n = 1;
        f->items[i].service = &f->services[service];
        ing_committer_submit(f->committer, &f->items[i]);
    }
}

static void agents_overtake_what_is_forwarded_for_other_services(void **state)
{
    struct fixture *f = start(UINT64_MAX, 0);

    (void)state;
    (void)pthread_mutex_lock(&f->lock);
    hold_up(f);
    forward(f, 1, 10, 0);
    f->items[10].service = &f->services[1];
    ing_committer_submit(f->committer, &f->items[10]);
    (void)pthread_mutex_unlock(&f->lock);
    stop(f);
    assert_int_equal(f->n_order, 11);
    assert_int_equal(f->order[1], 10);
    for (unsigned i = 2; i < 11; i++)
        assert_int_equal(f->order[i], i - 1);
    end(f);
}

/* They may name stacks that an item before them defines. */
static void items_of_one_service_keep_their_order(void **state)
{
    struct fixture *f = start(UINT64_MAX, 0);

    (void)state;
    (void)pthread_mutex_lock(&f->lock);
    hold_up(f);
    for (unsigned i = 1; i < ITEMS; i++) {
        f->items[i].via.n = i % 3 == 0;
        f->items[i].service = &f->services[i / 2 % 2];
        ing_committer_submit(f->committer, &f->items[i]);
    }
    (void)pthread_mutex_unlock(&f->lock);
    stop(f);
    assert_int_equal(f->n_order, ITEMS);
    for (unsigned service = 0; service < SERVICES; service++) {
        unsigned last = 0;

        for (unsigned i = 1; i < ITEMS; i++) {
            if (f->items[f->order[i]].service != &f->services[service])
                continue;
            assert_true(f->order[i] > last);
            last = f->order[i];
        }
        assert_int_equal(f->services[service].items_of_servers, 0);
        assert_int_equal(f->services[service].items_of_agents, 0);
    }
    end(f);
}

/* Nor if a group has no room for all agents' items, and some of its room for forwarded ones. */
static void forwarded_item_does_not_overtake_agents_items_of_its_service(void **state)
{
    static const uint8_t record[LARGE_RECORD_BYTES];
    struct fixture *f = start(UINT64_MAX, 0);

    (void)state;
    for (unsigned i = 1; i < ITEMS - 1; i++)
        fg_buf_append(&f->items[i].records, record, sizeof record);
    (void)pthread_mutex_lock(&f->lock);
    hold_up(f);
    for (unsigned i = 1; i < ITEMS - 1; i++) {
        f->items[i].service = &f->services[i == ITEMS - 2];
        ing_committer_submit(f->committer, &f->items[i]);
    }
    forward(f, ITEMS - 1, ITEMS, 1);
    (void)pthread_mutex_unlock(&f->lock);
    stop(f);
    assert_int_equal(f->n_order, ITEMS);
    assert_true(f->n_groups > 2);
    assert_int_equal(f->order[ITEMS - 2], ITEMS - 2);
    assert_int_equal(f->order[ITEMS - 1], ITEMS - 1);
    end(f);
}

static void a_group_has_little_of_what_is_forwarded_while_agents_push(void **state)
{
    static const uint8_t record[RECORD_BYTES];
    struct fixture *f = start(UINT64_MAX, 0);

    (void)state;
    for (unsigned i = 1; i < ITEMS; i++)
        fg_buf_append(&f->items[i].records, record, sizeof record);
    (void)pthread_mutex_lock(&f->lock);
    hold_up(f); /* an agent's */
    forward(f, 1, ITEMS, 0);
    (void)pthread_mutex_unlock(&f->lock);
    stop(f);
    assert_int_equal(f->n_order, ITEMS);
    assert_in_range(f->largest, 2, 9);
    end(f);
}

static void what_is_forwarded_takes_half_of_the_room(void **state)
{
    struct fixture *f = start(UINT64_MAX, 0);
    uint64_t one = ing_commit_item_bytes(&f->items[0]);
    unsigned taken = 0, i = 1;

    (void)state;
    stop(f);
    end(f);
    f = start(40 * one, 0);
    (void)pthread_mutex_lock(&f->lock);
    hold_up(f);
    for (; i < ITEMS; i++) {
        f->items[i].via.n = 1;
        f->items[i].service = &f->services[1];
        if (!ing_committer_has_room(f->committer, true))
            break;
        ing_committer_submit(f->committer, &f->items[i]);
    }
    assert_int_equal(i - 1, 20);
    while (ing_committer_has_room(f->committer, false))
        ing_committer_submit(f->committer, &f->items[50 + taken++]);
    assert_int_equal(taken, 20);
    (void)pthread_mutex_unlock(&f->lock);
    stop(f);
    assert_int_equal(f->n_done, 41);
    end(f);
}

static void visits_run_in_order_and_before_the_end(void **state)
{
    struct fixture *f = start(UINT64_MAX, 0);

    (void)state;
    for (int i = 0; i < ITEMS; i++)
        ing_committer_post(f->committer, &f->visits[i]);
    stop(f);
    assert_int_equal(f->n_order, ITEMS);
    for (unsigned i = 0; i < ITEMS; i++)
        assert_int_equal(f->order[i], ITEMS + i);
    end(f);
}

static void a_visit_ends_the_wait_for_more_items(void **state)
{
    struct fixture *f = start(UINT64_MAX, FG_HOUR_NS);

    (void)state;
    ing_committer_submit(f->committer, &f->items[0]);
    ing_committer_post(f->committer, &f->visits[0]);
    wait_soon(&f->visited);
    stop(f);
    assert_int_equal(f->n_order, 2);
    end(f);
}

/* It has waited while what is forwarded was written. */
static void item_of_an_agent_waits_once(void **state)
{
    struct fixture *f = start(UINT64_MAX, FG_HOUR_NS);

    (void)state;
    (void)pthread_mutex_lock(&f->lock);
    forward(f, 0, 1, 0);
    ing_committer_post(f->committer, &f->visits[0]); /* the first group begins at once */
    wait_soon(&f->began);
    f->items[1].service = &f->services[1];
    ing_committer_submit(f->committer, &f->items[1]);
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    (void)pthread_mutex_unlock(&f->lock);
    wait_soon(&f->began);
    stop(f);
    assert_int_equal(f->n_done, 2);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_committed_in_order_and_answered_before_the_end),
        cmocka_unit_test(items_that_wait_share_a_group),
        cmocka_unit_test(full_queue_has_no_room_and_an_empty_one_has_it_for_any_item),
        cmocka_unit_test(agents_overtake_what_is_forwarded_for_other_services),
        cmocka_unit_test(items_of_one_service_keep_their_order),
        cmocka_unit_test(forwarded_item_does_not_overtake_agents_items_of_its_service),
        cmocka_unit_test(a_group_has_little_of_what_is_forwarded_while_agents_push),
        cmocka_unit_test(what_is_forwarded_takes_half_of_the_room),
        cmocka_unit_test(visits_run_in_order_and_before_the_end),
        cmocka_unit_test(a_visit_ends_the_wait_for_more_items),
        cmocka_unit_test(item_of_an_agent_waits_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
