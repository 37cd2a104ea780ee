/* Tests the queue with a peer that holds its calls until the test answers them. */
#include "distributor/delivery/peer_queue.h"
#include "proto/inner.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CALLS_MAX = 16, ITEMS_MAX = 512 };

struct kept_call {
    struct fg_call *call;
    Fg__Inner__PushHead *head;
    char *payload;
};

struct slow_peer {
    struct fg_peer peer;
    struct kept_call calls[CALLS_MAX];
    unsigned n_calls, n_answered;
};

static void peer_send(struct fg_peer *peer, struct fg_call *call)
{
    struct slow_peer *slow = fg_container(peer, struct slow_peer, peer);
    struct kept_call *kept = &slow->calls[slow->n_calls++];

    assert_true(slow->n_calls <= CALLS_MAX);
    assert_int_equal(call->method, FG_RPC_PUSH);
    kept->call = call;
    kept->head = fg__inner__push_head__unpack(NULL, call->head.len, call->head.ptr);
    assert_non_null(kept->head);
    kept->payload = fg_malloc(call->payload.len + 1);
    memcpy(kept->payload, call->payload.ptr, call->payload.len);
    kept->payload[call->payload.len] = '\0';
}

static void peer_release(struct fg_call *call)
{
    free((void *)(uintptr_t)call->reply_head.ptr);
}

static const struct fg_peer_ops slow_ops = {peer_send, peer_release, NULL};

struct item {
    struct dist_peer_queue_item item;
    char text[16];
    unsigned done;
};

struct fixture {
    struct slow_peer slow;
    unsigned collects; /* calls of collects() */
    struct dist_peer_queue *queue;
    struct fg_clock_manual clock;
    struct item items[ITEMS_MAX];
};

static void on_done(struct dist_peer_queue_item *item)
{
    fg_container(item, struct item, item)->done++;
}

static void on_collect(void *arg)
{
    struct fixture *f = arg;

    f->collects++;
}

/* queue_items: capacity of the queue, in items of four bytes. */
static void open_sender(struct fixture *f, unsigned queue_items)
{
    const struct fg_id store = {7, 8};

    f->queue = dist_peer_queue_create(&(struct dist_peer_queue_config){
        .peer = &f->slow.peer,
        .clock = &f->clock.clock,
        .store = &store,
        .queue_max_bytes = (uint64_t)queue_items * (PEER_QUEUE_ITEM_BYTES + 4),
        .messages_max = 2,
        .on_collect = on_collect,
        .on_collect_arg = f,
    });
}

static int set_up(void **state)
{
    static char tenant[] = "tenant", service[] = "service";
    struct fixture *f = fg_new(struct fixture);

    f->slow.peer.ops = &slow_ops;
    fg_clock_manual_init(&f->clock, 0);
    open_sender(f, 18);
    for (size_t i = 0; i < ITEMS_MAX; i++) {
        struct item *item = &f->items[i];

        (void)snprintf(item->text, sizeof item->text, "[%zu]", i);
        item->item.tenant = tenant;
        item->item.service = service;
        item->item.batch = fg_cstr(item->text);
        item->item.shard = (uint16_t)i;
        item->item.revision = 5;
        item->item.deadline_mono_ns = FG_SECOND_NS;
        item->item.done = on_done;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < f->slow.n_calls; i++) {
        fg__inner__push_head__free_unpacked(f->slow.calls[i].head, NULL);
        free(f->slow.calls[i].payload);
    }
    dist_peer_queue_destroy(f->queue);
    free(f);
    return 0;
}

static void send_items(struct fixture *f, unsigned from, unsigned n)
{
    for (unsigned i = from; i < from + n; i++)
        dist_peer_queue_send(f->queue, &f->items[i].item);
}

/* Waits so long that the next items no longer wait for the message in flight. */
static void wait_long(struct fixture *f)
{
    fg_clock_manual_advance(&f->clock, 20 * FG_MS_NS);
}

/* Items 0 and 1 fill the two messages that may be in flight. */
static void make_busy(struct fixture *f)
{
    send_items(f, 0, 1);
    wait_long(f);
    send_items(f, 1, 1);
    assert_int_equal(f->slow.n_calls, 2);
}

/* Answers the oldest call after a delay: item i has i profiles stored, the item `lacking` lacks
 * stack 7. */
static void answer(struct fixture *f, size_t lacking)
{
    struct kept_call *kept = &f->slow.calls[f->slow.n_answered++];
    Fg__Inner__PushReply reply = FG__INNER__PUSH_REPLY__INIT;
    Fg__Inner__PushResult results[ITEMS_MAX], *pointers[ITEMS_MAX];
    uint32_t undefined[] = {7};
    uint8_t *bytes;

    for (size_t i = 0; i < kept->head->n_items; i++) {
        fg__inner__push_result__init(&results[i]);
        results[i].stored = (uint32_t)i;
        if (i == lacking) {
            results[i].undefined = undefined;
            results[i].n_undefined = 1;
        }
        pointers[i] = &results[i];
    }
    wait_long(f);
    reply.start_id = 99;
    reply.revision = 6;
    reply.results = pointers;
    reply.n_results = kept->head->n_items;
    bytes = fg_malloc(fg__inner__push_reply__get_packed_size(&reply));
    kept->call->reply_head = fg_bytes(bytes, fg__inner__push_reply__pack(&reply, bytes));
    kept->call->code = FG_OK;
    kept->call->done(kept->call);
}

/* The peer is unreachable: the oldest call fails and counts as the transport counts it. */
static void break_off(struct fixture *f)
{
    struct fg_call *call = f->slow.calls[f->slow.n_answered++].call;

    wait_long(f);
    atomic_fetch_add(&f->slow.peer.failures, 1);
    atomic_store(&f->slow.peer.failure_mono_ns, fg_mono_ns(fg_clock_real()));
    call->code = fg_fail(&call->err, FG_E_UNAVAILABLE, "gone");
    call->done(call);
}

static void an_idle_ingester_gets_each_batch_at_once(void **state)
{
    struct fixture *f = *state;

    make_busy(f);
    assert_string_equal(f->slow.calls[0].payload, "[0]");
    assert_string_equal(f->slow.calls[1].payload, "[1]");
    assert_string_equal(f->slow.calls[0].head->items[0]->tenant, "tenant");
    assert_string_equal(f->slow.calls[0].head->items[0]->service, "service");
    assert_int_equal(f->slow.calls[0].head->items[0]->bytes, 3);
    assert_int_equal(f->slow.calls[1].head->items[0]->shard, 1);
    assert_int_equal(f->slow.calls[0].head->revision, 5);
    assert_int_equal(f->slow.calls[0].head->store.len, FG_ID_BYTES);
    assert_int_equal(f->slow.calls[0].head->store.data[0], 7);
    answer(f, SIZE_MAX);
    answer(f, SIZE_MAX);
    assert_int_equal(f->items[0].done, 1);
    assert_int_equal(f->items[0].item.code, FG_OK);
    assert_int_equal(f->items[0].item.start_id, 99);
    assert_int_equal(f->items[0].item.newest, 6);
    assert_true(dist_peer_queue_is_idle(f->queue));
}

static void a_busy_ingester_gets_collected_batches_in_one_message(void **state)
{
    struct fixture *f = *state;

    make_busy(f);
    send_items(f, 2, 3);
    assert_int_equal(f->slow.n_calls, 2);
    answer(f, SIZE_MAX);
    assert_int_equal(f->slow.n_calls, 3);
    assert_string_equal(f->slow.calls[2].payload, "[2][3][4]");
    answer(f, SIZE_MAX);
    answer(f, 1);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(f->items[i].done, 1);
    assert_int_equal(f->items[4].item.stored, 2);
    assert_true(f->items[3].item.lacks);
    assert_false(f->items[2].item.lacks);
}

/* While a message is in flight, new items wait for its answer. */
static void batches_collect_while_a_message_is_in_flight(void **state)
{
    struct fixture *f = *state;

    send_items(f, 0, 4);
    assert_int_equal(f->slow.n_calls, 1);
    answer(f, SIZE_MAX);
    assert_int_equal(f->slow.n_calls, 2);
    assert_string_equal(f->slow.calls[1].payload, "[1][2][3]");
    answer(f, SIZE_MAX);
    assert_true(dist_peer_queue_is_idle(f->queue));
}

/* The flush sends waiting items even without new items and without an answer. */
static void a_flush_sends_batches_that_waited_long_enough(void **state)
{
    struct fixture *f = *state;

    send_items(f, 0, 1);
    assert_int_equal(f->collects, 0);
    send_items(f, 1, 2);
    assert_int_equal(f->slow.n_calls, 1);
    assert_true(f->collects > 0);
    assert_true(dist_peer_queue_flush(f->queue)); /* too early */
    assert_int_equal(f->slow.n_calls, 1);
    wait_long(f);
    assert_false(dist_peer_queue_flush(f->queue));
    assert_int_equal(f->slow.n_calls, 2);
    assert_string_equal(f->slow.calls[1].payload, "[1][2]");
    answer(f, ITEMS_MAX);
    answer(f, ITEMS_MAX);
}

/* Items that fill a message do not wait for an answer. */
static void enough_batches_are_sent_at_once(void **state)
{
    struct fixture *f = *state;

    dist_peer_queue_destroy(f->queue);
    open_sender(f, 100);
    send_items(f, 0, 1 + 31);
    assert_int_equal(f->slow.n_calls, 1);
    send_items(f, 32, 1 + 40);
    assert_int_equal(f->slow.n_calls, 2);
    assert_int_equal(f->slow.calls[1].head->n_items, 32);
    answer(f, SIZE_MAX);
    assert_int_equal(f->slow.n_calls, 3);
    assert_int_equal(f->slow.calls[2].head->n_items, 40);
    answer(f, SIZE_MAX);
    answer(f, SIZE_MAX);
}

static void a_full_queue_refuses_batches(void **state)
{
    struct fixture *f = *state;

    make_busy(f);
    send_items(f, 2, 20); /* 18 of four bytes may wait */
    assert_int_equal(f->items[19].done, 0);
    assert_int_equal(f->items[20].done, 1);
    assert_int_equal(f->items[20].item.code, FG_E_LIMIT);
    assert_int_equal(f->items[20].item.limit_of, FG_LIMIT_OF_SERVER);
    while (f->slow.n_answered < f->slow.n_calls)
        answer(f, SIZE_MAX);
    assert_int_equal(f->items[19].item.code, FG_OK);
}

static void a_batch_larger_than_the_queue_is_sent_alone(void **state)
{
    struct fixture *f = *state;
    char large[20 * PEER_QUEUE_ITEM_BYTES];

    memset(large, 'x', sizeof large);
    make_busy(f);
    f->items[2].item.batch = fg_bytes(large, sizeof large);
    send_items(f, 2, 2);
    assert_int_equal(f->items[3].item.code, FG_E_LIMIT);
    while (f->slow.n_answered < f->slow.n_calls)
        answer(f, SIZE_MAX);
    assert_int_equal(f->items[2].done, 1);
    assert_int_equal(f->items[2].item.code, FG_OK);
}

static void a_failed_call_fails_all_its_batches(void **state)
{
    struct fixture *f = *state;

    send_items(f, 0, 1);
    break_off(f);
    assert_int_equal(f->items[0].done, 1);
    assert_int_equal(f->items[0].item.code, FG_E_UNAVAILABLE);
    assert_string_equal(f->items[0].item.err.msg, "gone");
}

static void an_answer_without_results_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct fg_call *call;

    send_items(f, 0, 1);
    call = f->slow.calls[f->slow.n_answered++].call;
    call->code = FG_OK; /* and no results */
    call->done(call);
    assert_int_equal(f->items[0].item.code, FG_E_INTERNAL);
}

static void all_batches_of_a_message_have_one_ring_revision(void **state)
{
    struct fixture *f = *state;

    f->items[4].item.revision = 6;
    make_busy(f);
    send_items(f, 2, 4);
    answer(f, SIZE_MAX);
    assert_string_equal(f->slow.calls[2].payload, "[2][3]");
    answer(f, SIZE_MAX);
    assert_string_equal(f->slow.calls[3].payload, "[4]");
    assert_int_equal(f->slow.calls[3].head->revision, 6);
    while (f->slow.n_answered < f->slow.n_calls)
        answer(f, SIZE_MAX);
    assert_int_equal(f->items[5].item.code, FG_OK);
}

/* After three failures in a row all waiting items fail, and one message at a time tests the peer.
 */
static void an_unresponsive_ingester_fails_batches_at_once(void **state)
{
    struct fixture *f = *state;

    make_busy(f);
    send_items(f, 2, 2);
    break_off(f); /* items 2 and 3 are sent: one failure is not enough */
    assert_int_equal(f->slow.n_calls, 3);
    send_items(f, 4, 2);
    break_off(f);
    assert_int_equal(f->slow.n_calls, 4);
    send_items(f, 6, 1);
    break_off(f); /* the third; one message is still in flight */
    assert_int_equal(f->items[6].done, 1);
    assert_int_equal(f->items[6].item.code, FG_E_UNAVAILABLE);
    send_items(f, 7, 1);
    assert_int_equal(f->items[7].item.code, FG_E_UNAVAILABLE);
    break_off(f);
    assert_true(dist_peer_queue_is_idle(f->queue));
    send_items(f, 8, 2); /* the first of them tests the peer */
    assert_int_equal(f->slow.n_calls, 5);
    assert_int_equal(f->items[8].done, 0);
    assert_int_equal(f->items[9].item.code, FG_E_UNAVAILABLE);
    atomic_store(&f->slow.peer.failures, 0); /* as the transport does when there is an answer */
    answer(f, SIZE_MAX);
    send_items(f, 10, 1);
    assert_int_equal(f->slow.n_calls, 6);
    answer(f, SIZE_MAX);
    assert_int_equal(f->items[10].item.code, FG_OK);
}

static void batches_past_their_deadline_are_not_sent(void **state)
{
    struct fixture *f = *state;

    f->items[3].item.deadline_mono_ns = 3 * FG_SECOND_NS;
    make_busy(f);
    send_items(f, 2, 2);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    answer(f, SIZE_MAX);
    assert_int_equal(f->items[2].item.code, FG_E_DEADLINE);
    assert_string_equal(f->slow.calls[2].payload, "[3]");
    answer(f, SIZE_MAX);
    answer(f, SIZE_MAX);
}

static void waiting_batches_can_be_canceled(void **state)
{
    struct fixture *f = *state;

    make_busy(f);
    send_items(f, 2, 4);
    assert_false(dist_peer_queue_cancel(f->queue, &f->items[0].item));
    assert_true(dist_peer_queue_cancel(f->queue, &f->items[5].item));
    assert_true(dist_peer_queue_cancel(f->queue, &f->items[2].item));
    assert_true(dist_peer_queue_cancel(f->queue, &f->items[4].item));
    assert_false(dist_peer_queue_cancel(f->queue, &f->items[4].item));
    answer(f, SIZE_MAX);
    assert_string_equal(f->slow.calls[2].payload, "[3]");
    answer(f, SIZE_MAX);
    answer(f, SIZE_MAX);
    assert_int_equal(f->slow.n_calls, 3);
    assert_int_equal(f->items[5].done, 0);
}

static void stopping_fails_waiting_batches(void **state)
{
    struct fixture *f = *state;

    make_busy(f);
    send_items(f, 2, 2);
    dist_peer_queue_stop(f->queue);
    assert_int_equal(f->items[3].item.code, FG_E_UNAVAILABLE);
    assert_int_equal(f->items[0].done, 0);
    send_items(f, 4, 1);
    assert_int_equal(f->items[4].item.code, FG_E_UNAVAILABLE);
    answer(f, SIZE_MAX);
    answer(f, SIZE_MAX);
    assert_int_equal(f->slow.n_calls, 2);
    assert_int_equal(f->items[0].item.code, FG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_idle_ingester_gets_each_batch_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_busy_ingester_gets_collected_batches_in_one_message,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(batches_collect_while_a_message_is_in_flight, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_flush_sends_batches_that_waited_long_enough, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(enough_batches_are_sent_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_queue_refuses_batches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_batch_larger_than_the_queue_is_sent_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failed_call_fails_all_its_batches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_without_results_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_batches_of_a_message_have_one_ring_revision, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_unresponsive_ingester_fails_batches_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(batches_past_their_deadline_are_not_sent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(waiting_batches_can_be_canceled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopping_fails_waiting_batches, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
