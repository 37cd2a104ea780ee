/* Tests deliveries to a ring whose ingesters answer when the test says so. */
#include "distributor/delivery/delivery.h"
#include "distributor/distributor.h"
#include "tests/lib/push_ring.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

enum { ANN, BOB, CAT, DAN, STACKS = 3 };
enum { WAIT_MAX_S = 30, FULL_MESSAGES = 5 };

static const struct push_answer well = {.code = FG_OK};
static const struct push_answer lacks = {.lacks = true};
static const struct push_answer full = {.code = FG_E_LIMIT};
static const struct push_answer early = {.code = FG_E_ABORTED};
static const struct push_answer stale = {.code = FG_E_PRECONDITION, .newest = 4};

FG_METRICS_TABLE(metrics, DISTRIBUTOR_METRICS)

struct fixture {
    struct push_ring ring;
    struct dist_owners *owners;
    struct fg_definition_cache *cache;
    struct fg_registry *registry;
    struct dist_deliveries deliveries;
    pthread_mutex_t lock;
    pthread_cond_t over;
    unsigned rounds; /* that ended */
    unsigned n_begun;
    struct fg_stack stacks[STACKS];
    struct fg_batch batch;
};

static void on_round(void *arg)
{
    struct fixture *f = arg;

    (void)pthread_mutex_lock(&f->lock);
    f->rounds++;
    (void)pthread_cond_broadcast(&f->over);
    (void)pthread_mutex_unlock(&f->lock);
}

static unsigned rounds(struct fixture *f)
{
    unsigned n;

    (void)pthread_mutex_lock(&f->lock);
    n = f->rounds;
    (void)pthread_mutex_unlock(&f->lock);
    return n;
}

static int open_with(void **state, unsigned dead, unsigned messages_max)
{
    struct fixture *f = fg_new(struct fixture);

    push_ring_open(&f->ring, dead);
    f->owners = dist_owners_create(&(struct dist_owners_config){
        .watch = f->ring.watch,
        .peers = f->ring.peers,
        .clock = fg_clock_real(),
        .queue_max_bytes = 1 << 20,
        .messages_max = messages_max,
    });
    f->cache = fg_definition_cache_create(100000);
    f->registry = fg_registry_create();
    f->deliveries = (struct dist_deliveries){
        .owners = f->owners,
        .definition_cache = f->cache,
        .metrics = fg_metrics_register(f->registry, metrics, FG_COUNT(metrics)),
        .stragglers_max_bytes = 1 << 20,
    };
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->over, NULL);
    for (unsigned i = 0; i < STACKS; i++)
        f->stacks[i].id = (struct fg_id){i + 1, 0};
    f->batch = (struct fg_batch){.stacks = f->stacks, .n_stacks = STACKS};
    *state = f;
    return 0;
}

static int open_all(void **state)
{
    return open_with(state, 0, 4);
}

static int open_without_cat(void **state)
{
    return open_with(state, 1 << CAT, 4);
}

static int open_with_ann_alone(void **state)
{
    return open_with(state, 1 << BOB | 1 << CAT, 4);
}

static int open_full(void **state)
{
    return open_with(state, 0, FULL_MESSAGES);
}

static int open_narrow(void **state)
{
    return open_with(state, 0, 1);
}

static int close_all(void **state)
{
    struct fixture *f = *state;

    push_ring_answer_all(&f->ring);
    dist_owners_stop(f->owners);
    assert_int_equal(atomic_load(&f->deliveries.straggler_bytes), 0);
    dist_owners_destroy(f->owners);
    push_ring_close(&f->ring);
    fg_definition_cache_destroy(f->cache);
    fg_registry_destroy(f->registry);
    (void)pthread_cond_destroy(&f->over);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
    return 0;
}

/* ---- steps ---- */

static struct dist_delivery *create(struct fixture *f, uint16_t shard)
{
    return dist_delivery_create(&f->deliveries, shard, 77, false, on_round, f);
}

/* Begins another round of a batch that has come by a way; returns how many stacks it defines. */
static unsigned send_round_by(struct fixture *f, struct dist_delivery *delivery,
                              struct fg_slice via)
{
    /* After this time an unanswered message delays no other. */
    const struct timespec pause = {.tv_nsec = 20 * FG_MS_NS};
    bool define[STACKS] = {false};
    struct dist_encoded_batch *encoded;
    struct fg_err err;
    unsigned n = 0;

    if (dist_delivery_begin(delivery, &err) != FG_OK)
        fail_msg("%s", err.msg);
    dist_delivery_define(delivery, &f->batch, define);
    for (unsigned i = 0; i < STACKS; i++)
        n += define[i];
    encoded = dist_encoded_batch_create(FG_LIT("tenant"), FG_LIT("service"), via, &f->batch, define,
                                        FG_LIT("batch"));
    f->n_begun++;
    (void)nanosleep(&pause, NULL);
    dist_delivery_send(delivery, encoded, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS);
    dist_encoded_batch_unref(encoded);
    return n;
}

static unsigned send_round(struct fixture *f, struct dist_delivery *delivery)
{
    return send_round_by(f, delivery, FG_LIT(""));
}

/* Does the same; ann and bob answer. */
static unsigned send_answered(struct fixture *f, struct dist_delivery *delivery,
                              struct push_answer ann, struct push_answer bob)
{
    unsigned defined = send_round(f, delivery);

    push_ring_say(&f->ring, ANN, ann);
    push_ring_say(&f->ring, BOB, bob);
    return defined;
}

/* Waits until the round ends: now, or when the transport has delivered the answers. */
static struct dist_delivery_result wait_round(struct fixture *f, struct dist_delivery *delivery)
{
    const struct timespec until = {.tv_sec = time(NULL) + WAIT_MAX_S};
    struct dist_delivery_result result;

    (void)pthread_mutex_lock(&f->lock);
    while (f->rounds < f->n_begun && pthread_cond_timedwait(&f->over, &f->lock, &until) == 0)
        continue;
    (void)pthread_mutex_unlock(&f->lock);
    assert_int_equal(rounds(f), f->n_begun); /* and only once */
    dist_delivery_result(delivery, &result);
    return result;
}

static void expect_round(struct fixture *f, struct dist_delivery *delivery,
                         enum dist_delivery_state state)
{
    assert_int_equal(wait_round(f, delivery).state, state);
}

/* Makes a delivery that ann and bob complete; returns how many stacks it defines. */
static unsigned deliver(struct fixture *f)
{
    struct dist_delivery *delivery = create(f, 9);
    unsigned defined = send_answered(f, delivery, well, well);

    expect_round(f, delivery, DELIVERY_STORED);
    dist_delivery_leave(delivery);
    return defined;
}

static void pause_until(time_t until, const char *name)
{
    if (time(NULL) > until)
        fail_msg("calls to %s do not end", name);
    sched_yield();
}

/* Waits until the answers of stragglers were processed. */
static void wait_idle(struct fixture *f, uint16_t shard)
{
    const time_t until = time(NULL) + WAIT_MAX_S;
    struct dist_owner_set set;
    struct fg_err err;

    assert_int_equal(dist_owners_of(f->owners, shard, &set, &err), FG_OK);
    for (unsigned i = 0; i < set.n_with_peer; i++)
        while (!dist_peer_queue_is_idle(set.with_peer[i]->queue))
            pause_until(until, set.with_peer[i]->name);
    dist_owner_set_done(&set);
}

static void expect_count(struct fixture *f, const char *line)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(f->registry, &text);
    fg_buf_putc(&text, '\0');
    if (strstr((const char *)text.ptr, line) == NULL)
        fail_msg("no %s in\n%s", line, (const char *)text.ptr);
    fg_buf_done(&text);
}

/* ---- tests ---- */

static void two_of_three_replicas_are_a_quorum(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *delivery = create(f, 9);
    struct dist_delivery_result result;
    struct push_asked *late;

    assert_int_equal(send_round(f, delivery), STACKS);
    late = push_ring_take(&f->ring, CAT);
    assert_int_equal(late->revision, 3);
    assert_int_equal(late->shards[0], 9);
    push_ring_say(&f->ring, ANN, well);
    push_ring_say(&f->ring, BOB, (struct push_answer){.duplicate = true});
    result = wait_round(f, delivery);
    assert_int_equal(result.state, DELIVERY_STORED);
    assert_int_equal(result.stored, 1);
    assert_int_equal(result.duplicates, 0);
    dist_delivery_leave(delivery);
    assert_true(atomic_load(&f->deliveries.straggler_bytes) > 0);

    /* Stacks that cat has not confirmed are defined for all owners; afterwards none are. */
    delivery = create(f, 9);
    assert_int_equal(send_answered(f, delivery, well, well), STACKS);
    push_ring_say(&f->ring, CAT, well);
    push_ring_answer(late, &well);
    expect_round(f, delivery, DELIVERY_STORED);
    dist_delivery_leave(delivery);
    wait_idle(f, 9);
    expect_count(f, "stragglers_total{outcome=\"stored\"} ");
    delivery = create(f, 9);
    assert_int_equal(send_round(f, delivery), 0);
    for (unsigned i = ANN; i <= CAT; i++)
        push_ring_say(&f->ring, i, well);
    expect_round(f, delivery, DELIVERY_STORED);
    dist_delivery_leave(delivery);
}

static void definitions_that_a_straggler_lacks_are_sent_next_time(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(deliver(f), i == 1 ? 0 : STACKS);
        push_ring_say(&f->ring, CAT, i == 1 ? lacks : well);
        wait_idle(f, 9);
    }
    expect_count(f, "stragglers_total{outcome=\"stored\"} 2");
    expect_count(f, "stragglers_total{outcome=\"failed\"} 1");
}

static void a_quorum_does_not_need_a_dead_owner(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 4; i++) {
        (void)deliver(f);
        wait_idle(f, 9);
    }
    /* An owner that never confirms must not make the others get all definitions for ever. */
    assert_int_equal(deliver(f), 0);
}

static void two_dead_owners_of_three_miss_the_quorum(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *delivery = create(f, 9);
    struct dist_delivery_result result;

    (void)send_round(f, delivery);
    push_ring_say(&f->ring, ANN, well);
    result = wait_round(f, delivery);
    assert_int_equal(result.state, DELIVERY_UNRESPONSIVE);
    assert_int_equal(result.err.code, FG_E_UNAVAILABLE);
    assert_non_null(strstr(result.err.msg,
                           "2 of the 3 ingesters that own this series must acknowledge, 1 did: "));
    /* Ann is not asked again. */
    (void)send_round(f, delivery);
    expect_round(f, delivery, DELIVERY_UNRESPONSIVE);
    assert_int_equal(push_ring_count(&f->ring, ANN), 1);
    dist_delivery_leave(delivery);
}

/* Finds a shard that dan and ann own in a ring of four. */
static uint16_t shared_shard(struct fixture *f, unsigned *ret_third)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    struct fg_ring_view *view = fg_ring_watch_get(f->ring.watch);
    uint16_t shard = 0;
    unsigned found = 0;

    for (; (found & (1 << ANN | 1 << DAN)) != (1 << ANN | 1 << DAN); shard++) {
        assert_int_equal(fg_ring_view_owners(view, shard, owners), 3);
        found = 0;
        for (unsigned i = 0; i < 3; i++)
            found |= 1u << (owners[i]->name.ptr[0] - 'a'); /* of ann, bob, cat, dan */
    }
    fg_ring_view_unref(view);
    *ret_third = (found & 1 << BOB) != 0 ? BOB : CAT;
    return (uint16_t)(shard - 1);
}

/* Waits until n calls to the owner are left. */
static void wait_calls(struct fixture *f, uint16_t shard, const char *name, unsigned calls)
{
    const time_t until = time(NULL) + WAIT_MAX_S;
    struct fg_peer_health health;
    struct dist_owner_set set;
    struct fg_err err;

    assert_int_equal(dist_owners_of(f->owners, shard, &set, &err), FG_OK);
    for (unsigned i = 0; i < set.n_with_peer; i++) {
        fg_peer_health(set.with_peer[i]->peer, &health);
        while (strcmp(set.with_peer[i]->name, name) == 0 && health.calls != calls) {
            pause_until(until, name);
            fg_peer_health(set.with_peer[i]->peer, &health);
        }
    }
    dist_owner_set_done(&set);
}

/* One copy under revision 4 and one under revision 5 are a quorum of neither. */
static void answers_under_two_revisions_are_no_quorum(void **state)
{
    struct fixture *f = *state;
    struct push_asked *old, *third, *now;
    struct dist_delivery_result result;
    struct dist_delivery *delivery;
    unsigned other;
    uint16_t shard;

    push_ring_join(&f->ring, DAN, 4);
    push_ring_until(&f->ring, 4);
    shard = shared_shard(f, &other);
    delivery = create(f, shard);
    (void)send_round(f, delivery);
    old = push_ring_take(&f->ring, ANN);
    third = push_ring_take(&f->ring, other);
    assert_int_equal(old->revision, 4);
    push_ring_say(&f->ring, DAN, (struct push_answer){.code = FG_E_PRECONDITION, .newest = 5});
    result = wait_round(f, delivery);
    assert_int_equal(result.state, DELIVERY_STALE);
    assert_int_equal(result.revision, 5);
    push_ring_join(&f->ring, DAN, 99); /* with another store, which makes revision 5 */
    push_ring_until(&f->ring, 5);

    (void)send_round(f, delivery);
    push_ring_answer(old, &well);
    push_ring_answer(third, &well);
    now = push_ring_take(&f->ring, ANN);
    third = push_ring_take(&f->ring, other);
    assert_int_equal(now->revision, 5);
    push_ring_say(&f->ring, DAN, well);
    wait_calls(f, shard, "ann", 1);
    wait_calls(f, shard, "dan", 0);
    assert_int_equal(rounds(f), f->n_begun - 1); /* two under revision 4, one under revision 5 */
    push_ring_answer(now, &well);
    expect_round(f, delivery, DELIVERY_STORED);
    dist_delivery_leave(delivery);
    push_ring_answer(third, &well);
}

/* A round does not wait for the third owner when another one reports a newer revision. */
static void a_newer_revision_ends_the_round_at_once(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *delivery = create(f, 9);
    struct push_asked *first, *third;

    (void)send_round(f, delivery);
    first = push_ring_take(&f->ring, ANN);
    third = push_ring_take(&f->ring, CAT);
    push_ring_say(&f->ring, BOB, stale);
    expect_round(f, delivery, DELIVERY_STALE);
    push_ring_answer(first, &well);
    push_ring_answer(third, &well);
    wait_idle(f, 9);
    expect_round(f, delivery, DELIVERY_STORED); /* under the older revision */
    dist_delivery_leave(delivery);
}

static void ingesters_behind_the_ring_are_asked_again(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *delivery = create(f, 9);

    (void)send_answered(f, delivery, well, early);
    push_ring_say(&f->ring, CAT, early);
    expect_round(f, delivery, DELIVERY_EARLY);
    (void)send_round(f, delivery);
    push_ring_say(&f->ring, BOB, well);
    expect_round(f, delivery, DELIVERY_STORED);
    dist_delivery_leave(delivery);
    push_ring_say(&f->ring, CAT, early);
    assert_int_equal(push_ring_count(&f->ring, ANN), 1);
}

/* Cat is away: ann has stored the batch, bob gets the definitions that it lacks, and ann does not
 * get the batch again. */
static void an_ingester_that_lacks_definitions_gets_them(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *delivery = create(f, 9);
    const struct fg_id ids[] = {f->stacks[0].id, f->stacks[1].id, f->stacks[2].id};
    struct dist_owner_set set;
    struct fg_err err;

    assert_int_equal(dist_owners_of(f->owners, 9, &set, &err), FG_OK);
    for (unsigned i = 0; i < set.n_with_peer; i++) /* as if from earlier pushes */
        fg_definition_cache_add(f->cache, 77 ^ set.with_peer[i]->key, 1, ids, STACKS);
    dist_owner_set_done(&set);
    assert_int_equal(send_answered(f, delivery, well, lacks), 0);
    expect_round(f, delivery, DELIVERY_LACKS);
    assert_int_equal(send_round(f, delivery), STACKS);
    push_ring_say(&f->ring, BOB, well);
    expect_round(f, delivery, DELIVERY_STORED);
    dist_delivery_leave(delivery);
    assert_int_equal(push_ring_count(&f->ring, ANN), 1);
}

static void a_quorum_of_full_ingesters_is_a_refusal(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *delivery = create(f, 9);
    struct dist_delivery_result result;

    (void)send_answered(f, delivery, full, well);
    push_ring_say(&f->ring, CAT, full);
    result = wait_round(f, delivery);
    assert_int_equal(result.state, DELIVERY_REFUSED);
    assert_int_equal(result.err.code, FG_E_LIMIT);
    assert_string_equal(result.err.msg, "as the test says");
    dist_delivery_leave(delivery);
}

static void one_full_and_one_dead_owner_are_no_refusal(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *delivery = create(f, 9);

    (void)send_answered(f, delivery, full, well);
    expect_round(f, delivery, DELIVERY_UNRESPONSIVE);
    dist_delivery_leave(delivery);
}

/* Ingesters answer late what is forwarded, since they look late profiles up. */
static void what_is_forwarded_does_not_hold_up_what_agents_send(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *forwarded = create(f, 9), *live = create(f, 9);
    struct push_asked *asked[2];

    (void)send_round_by(f, forwarded, FG_LIT("sixteen bytes...")); /* all that may be in flight */
    asked[0] = push_ring_take(&f->ring, ANN);
    asked[1] = push_ring_take(&f->ring, BOB);
    (void)send_answered(f, live, well, well);
    f->n_begun--; /* the other one has not ended */
    expect_round(f, live, DELIVERY_STORED);
    f->n_begun++;
    push_ring_answer(asked[0], &well);
    push_ring_answer(asked[1], &well);
    expect_round(f, forwarded, DELIVERY_STORED);
    dist_delivery_leave(live);
    dist_delivery_leave(forwarded);
}

/* The queues to an ingester share its peer, and fill without a refusal while it does not answer. */
static void a_peer_has_calls_for_all_queues_of_an_owner(void **state)
{
    enum { LIVE = FULL_MESSAGES, FORWARDED = FULL_MESSAGES / 2, ALL = LIVE + FORWARDED };
    const struct dist_settings settings = {.push_messages_max = FULL_MESSAGES};
    struct fixture *f = *state;
    struct dist_delivery *deliveries[ALL + 2]; /* the last two wait in the queues */
    struct dist_delivery_result result;

    assert_int_equal(dist_calls_max(&settings, 1), PUSH_RING_CALLS);
    for (unsigned i = 0; i < FG_COUNT(deliveries); i++) {
        bool forwarded = i < FORWARDED || i == ALL;

        deliveries[i] = create(f, 9);
        (void)send_round_by(f, deliveries[i], forwarded ? FG_LIT("sixteen bytes...") : FG_LIT(""));
    }
    for (unsigned i = 0; i < FG_COUNT(deliveries); i++) {
        push_ring_say(&f->ring, ANN, well);
        push_ring_say(&f->ring, BOB, well);
    }
    for (unsigned i = 0; i < FG_COUNT(deliveries); i++) {
        result = wait_round(f, deliveries[i]);
        assert_int_equal(result.state, DELIVERY_STORED);
        dist_delivery_leave(deliveries[i]);
    }
}

/* Only one message at a time goes to a slow owner; waiting copies beyond the limit are dropped. */
static void the_memory_of_stragglers_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct push_asked *slow;

    f->deliveries.stragglers_max_bytes = 2500; /* room for two or three copies */
    for (unsigned i = 0; i < 6; i++) {
        (void)deliver(f);
        assert_true(atomic_load(&f->deliveries.straggler_bytes) <=
                    f->deliveries.stragglers_max_bytes);
    }
    slow = push_ring_take(&f->ring, CAT);
    assert_int_equal(slow->n_items, 1);
    push_ring_answer(slow, &well);
    slow = push_ring_take(&f->ring, CAT);
    assert_true(slow->n_items > 0 && slow->n_items < 5);
    push_ring_answer(slow, &well);
    wait_idle(f, 9);
    expect_count(f, "stragglers_total{outcome=\"dropped\"} ");
}

static void *stop(void *owners)
{
    dist_owners_stop(owners);
    return NULL;
}

/* Stopping waits for copies in flight. */
static void stopping_waits_for_stragglers(void **state)
{
    struct fixture *f = *state;
    struct push_asked *slow = NULL;
    pthread_t thread;

    for (unsigned i = 0; i < 2; i++)
        (void)deliver(f);
    slow = push_ring_take(&f->ring, CAT);
    assert_int_equal(pthread_create(&thread, NULL, stop, f->owners), 0);
    push_ring_script(&f->ring, CAT, &well, 1); /* the second answer may come before the stop */
    push_ring_answer(slow, &well);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&f->deliveries.straggler_bytes), 0);
}

/* Cat gets another address under the same revision: the next round uses it. */
static void an_owner_is_found_at_its_new_address(void **state)
{
    struct fixture *f = *state;
    struct dist_delivery *delivery = create(f, 9);

    (void)send_answered(f, delivery, well, full);
    expect_round(f, delivery, DELIVERY_UNRESPONSIVE);
    push_ring_move(&f->ring, CAT, DAN);
    (void)send_round(f, delivery);
    push_ring_say(&f->ring, BOB, full);
    push_ring_say(&f->ring, DAN, well);
    expect_round(f, delivery, DELIVERY_STORED);
    dist_delivery_leave(delivery);
    assert_int_equal(fg_peers_count(f->ring.peers), 4);
    wait_idle(f, 9);
}

/* clang-format off */
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, close_all)
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_of_three_replicas_are_a_quorum, open_all),
        TEST(definitions_that_a_straggler_lacks_are_sent_next_time, open_all),
        TEST(a_quorum_does_not_need_a_dead_owner, open_without_cat),
        TEST(two_dead_owners_of_three_miss_the_quorum, open_with_ann_alone),
        TEST(answers_under_two_revisions_are_no_quorum, open_all),
        TEST(a_newer_revision_ends_the_round_at_once, open_all),
        TEST(ingesters_behind_the_ring_are_asked_again, open_all),
        TEST(an_ingester_that_lacks_definitions_gets_them, open_without_cat),
        TEST(a_quorum_of_full_ingesters_is_a_refusal, open_all),
        TEST(one_full_and_one_dead_owner_are_no_refusal, open_without_cat),
        TEST(what_is_forwarded_does_not_hold_up_what_agents_send, open_narrow),
        TEST(a_peer_has_calls_for_all_queues_of_an_owner, open_full),
        TEST(the_memory_of_stragglers_is_bounded, open_narrow),
        TEST(stopping_waits_for_stragglers, open_narrow),
        TEST(an_owner_is_found_at_its_new_address, open_without_cat),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
