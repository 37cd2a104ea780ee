/* What a server's callers may hold of its slots, and which of them do not read. */
#include "common/net/rpc/connections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MAX = 64, SLOTS_MAX = 576, HELD_MAX = SLOTS_MAX + FG_SLOTS_FOR_REFUSALS, LOOKS = 3 };

static const struct fg_connection_address inside;

static struct fg_connection_address address_of(uint8_t host)
{
    return (struct fg_connection_address){.bytes = {[0] = 10, [15] = host}};
}

static void add(struct fg_connections *connections, uint32_t id,
                const struct fg_connection_address *address)
{
    assert_int_equal(fg_connections_add(connections, id, address, 1), FG_CONNECTION_TAKEN);
}

/* Slots of a connection, to be given back. */
struct held {
    struct fg_connection *connections[HELD_MAX];
    enum fg_slot_verdict verdicts[HELD_MAX];
    unsigned n, refused;
    enum fg_slot_verdict last;
};

/* Takes slots until none is given, or so many are held. */
static void take(struct fg_connections *connections, uint32_t id, unsigned n_max, struct held *held)
{
    while (held->n < n_max) {
        struct fg_connection *connection;

        held->last = fg_connections_take_slot(connections, id, &connection);
        if (connection == NULL)
            return;
        held->connections[held->n] = connection;
        held->verdicts[held->n++] = held->last;
        held->refused += held->last == FG_SLOT_REFUSED;
    }
}

static void give_all(struct fg_connections *connections, struct held *held)
{
    for (unsigned i = 0; i < held->n; i++) {
        fg_connections_reply_waits(connections, held->connections[i]);
        fg_connections_give_slot(connections, held->connections[i], held->verdicts[i]);
    }
    *held = (struct held){0};
}

static void nobody_can_take_all_slots(void **state)
{
    /* Whoever floods, one more caller gets `left` slots at once. */
    static const struct {
        const char *name;
        unsigned slots, connections, addresses, left;
    } cases[] = {
        {"one connection, a small server", 4, 1, 1, 1},
        {"one connection, the slots of a querier", 64, 1, 1, 10},
        {"one connection", 576, 1, 1, 100},
        {"one address", 576, 32, 1, 50},
        {"two addresses", 576, 32, 2, 10},
        {"four addresses", 576, 32, 4, 1},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_connections *connections = fg_connections_create(MAX, MAX, cases[i].slots);
        struct fg_connection_address other = address_of(200);
        struct held *helds = fg_calloc(MAX, sizeof *helds), theirs = {0};

        print_message("  %s\n", cases[i].name);
        add(connections, MAX, &other);
        for (unsigned k = 0; k < cases[i].connections; k++) {
            struct fg_connection_address address = address_of((uint8_t)(k % cases[i].addresses));

            add(connections, k, &address);
        }
        for (unsigned k = 0; k < cases[i].connections; k++) {
            take(connections, k, HELD_MAX, &helds[k]);
            assert_int_equal(helds[k].last, FG_SLOT_DROPPED);
        }
        take(connections, MAX, HELD_MAX, &theirs);
        if (theirs.n - theirs.refused < cases[i].left)
            fail_msg("%u slots left", theirs.n - theirs.refused);
        give_all(connections, &theirs);
        for (unsigned k = 0; k < cases[i].connections; k++)
            give_all(connections, &helds[k]);
        free(helds);
        fg_connections_destroy(connections);
    }
}

static void a_caller_alone_has_most_slots(void **state)
{
    struct fg_connections *connections = fg_connections_create(MAX, MAX, SLOTS_MAX);
    struct fg_connection_address address = address_of(1);
    struct held *held = fg_new(struct held);

    (void)state;
    add(connections, 1, &address);
    take(connections, 1, HELD_MAX, held);
    assert_int_equal(held->n - held->refused, SLOTS_MAX * 2 / 3);
    assert_int_equal(held->refused, FG_SLOTS_FOR_REFUSALS / 4);
    assert_int_equal(held->last, FG_SLOT_DROPPED); /* refusals are not read either */
    give_all(connections, held);
    for (unsigned i = 0; i < 3 * SLOTS_MAX; i++) { /* one after another */
        take(connections, 1, 1, held);
        assert_int_equal(held->last, FG_SLOT_TAKEN);
        give_all(connections, held);
    }
    free(held);
    fg_connections_destroy(connections);
}

static void calls_within_the_process_may_use_all_slots(void **state)
{
    struct fg_connections *connections = fg_connections_create(MAX, 1, SLOTS_MAX);
    struct held *held = fg_new(struct held);

    (void)state;
    add(connections, 1, &inside);
    add(connections, 2, &inside);
    take(connections, 1, SLOTS_MAX, held);
    assert_int_equal(held->n, SLOTS_MAX);
    assert_int_equal(held->refused, 0);
    give_all(connections, held);
    free(held);
    fg_connections_destroy(connections);
}

static void a_connection_that_has_ended_exists_until_its_slots_are_given_back(void **state)
{
    struct fg_connections *connections = fg_connections_create(MAX, 1, SLOTS_MAX);
    struct fg_connection_address address = address_of(1);
    struct fg_connection *connection, *none;

    (void)state;
    add(connections, 1, &address);
    assert_int_equal(fg_connections_take_slot(connections, 1, &connection), FG_SLOT_TAKEN);
    assert_false(fg_connection_is_gone(connection));
    fg_connections_remove(connections, 1);
    assert_true(fg_connection_is_gone(connection));
    assert_int_equal(fg_connections_take_slot(connections, 1, &none), FG_SLOT_GONE);
    assert_null(none);
    assert_int_equal(fg_connections_count(connections), 0);
    add(connections, 2, &address); /* the limit of the address counts those that are open */
    assert_int_equal(fg_connections_add(connections, 3, &address, 1),
                     FG_CONNECTION_TOO_MANY_FROM_ADDRESS);
    fg_connections_reply_waits(connections, connection);
    fg_connections_give_slot(connections, connection, FG_SLOT_TAKEN);
    fg_connections_destroy(connections);
}

/* --- who does not read --- */

static size_t look(struct fg_connections *connections)
{
    uint32_t ids[MAX];
    size_t n = fg_connections_find_unread(connections, LOOKS, ids, MAX);

    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], 1);
    return n;
}

static void only_callers_that_read_nothing_are_found(void **state)
{
    struct fg_connections *connections = fg_connections_create(MAX, MAX, SLOTS_MAX);
    struct fg_connection_address address = address_of(1);
    struct fg_connection *slots[4];

    (void)state;
    add(connections, 1, &address);
    add(connections, 2, &inside);
    for (unsigned i = 0; i < FG_COUNT(slots); i++)
        assert_int_equal(fg_connections_take_slot(connections, i == 3 ? 2 : 1, &slots[i]),
                         FG_SLOT_TAKEN);
    for (unsigned i = 0; i < 2 * LOOKS; i++)
        assert_int_equal(look(connections), 0); /* work takes long: nothing is to be read */
    fg_connections_reply_waits(connections, slots[0]);
    fg_connections_reply_waits(connections, slots[1]);
    fg_connections_reply_waits(connections, slots[3]); /* of the same process: never found */
    for (unsigned i = 0; i < LOOKS; i++)
        assert_int_equal(look(connections), 0);
    fg_connections_give_slot(connections, slots[0], FG_SLOT_TAKEN); /* slow, but it reads */
    fg_connections_reply_waits(connections, slots[2]);
    for (unsigned i = 0; i < LOOKS; i++)
        assert_int_equal(look(connections), 0);
    assert_int_equal(look(connections), 1);
    assert_int_equal(look(connections), 1); /* until it ends */
    fg_connections_remove(connections, 1);
    assert_int_equal(look(connections), 0);
    for (unsigned i = 1; i < FG_COUNT(slots); i++)
        fg_connections_give_slot(connections, slots[i], FG_SLOT_TAKEN);
    fg_connections_destroy(connections);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_can_take_all_slots),
        cmocka_unit_test(a_caller_alone_has_most_slots),
        cmocka_unit_test(calls_within_the_process_may_use_all_slots),
        cmocka_unit_test(a_connection_that_has_ended_exists_until_its_slots_are_given_back),
        cmocka_unit_test(only_callers_that_read_nothing_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
