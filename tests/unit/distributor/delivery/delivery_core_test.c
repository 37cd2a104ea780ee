/* The quorum of a batch, answer by answer: no peer, no clock, no thread. */
#include "distributor/delivery/delivery_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { REVISION = 7, OWNERS = 3, QUORUM = 2 };

static const struct dist_delivery_answer
    stored = {.revision = REVISION, .stored = 1},
    duplicate = {.revision = REVISION, .duplicates = 1},
    lacks = {.revision = REVISION, .lacks = true},
    stale = {.revision = REVISION, .newest = 9, .err = {.code = FG_E_PRECONDITION}},
    stranger = {.revision = REVISION,
                .newest = REVISION,
                .err = {.code = FG_E_PRECONDITION, .msg = "another store"}},
    early = {.revision = REVISION, .err = {.code = FG_E_ABORTED}},
    dead = {.revision = REVISION, .err = {.code = FG_E_UNAVAILABLE, .msg = "dead"}},
    full = {.revision = REVISION, .err = {.code = FG_E_LIMIT, .msg = "full"}, .retry_after_s = 9};

/* Three owners of which two are a quorum; the first n_keys have a peer. */
static struct dist_delivery_owners owners_of(uint64_t revision, unsigned n_keys)
{
    return (struct dist_delivery_owners){
        .revision = revision,
        .quorum = QUORUM,
        .n_owners = OWNERS,
        .n_keys = n_keys,
        .keys = {11, 22, 33},
        .err = {.code = FG_E_UNAVAILABLE, .msg = "no such host"},
    };
}

static void begin(struct dist_delivery_core *core, uint64_t revision, unsigned n_keys,
                  unsigned n_sent)
{
    const struct dist_delivery_owners owners = owners_of(revision, n_keys);
    unsigned replicas[FG_RING_REPLICAS_MAX];

    (void)dist_delivery_core_begin(core, &owners);
    assert_int_equal(dist_delivery_core_send(core, replicas), n_sent);
}

static void expect(const struct dist_delivery_core *core, enum dist_delivery_state state,
                   const char *message)
{
    struct dist_delivery_result result;

    dist_delivery_core_result(core, &result);
    assert_int_equal(result.state, state);
    assert_non_null(strstr(result.err.msg, message));
    /* Only a refusal says for how long, and it comes from the ingester that refused. */
    assert_int_equal(result.retry_after_s,
                     state == DELIVERY_REFUSED && strcmp(result.err.msg, full.err.msg) == 0
                         ? full.retry_after_s
                         : 0);
}

static void a_round_ends_when_further_answers_cannot_change_it(void **state)
{
    static const struct {
        const char *name;
        const struct dist_delivery_answer *answers[OWNERS]; /* in this order; the last may lack */
        enum dist_delivery_state want;
        const char *message;
    } cases[] = {
        {"two stored", {&stored, &stored}, DELIVERY_STORED, ""},
        {"one stored, one had it", {&stored, &duplicate}, DELIVERY_STORED, ""},
        {"stored after a refusal", {&full, &stored, &stored}, DELIVERY_STORED, ""},
        {"two lack", {&lacks, &lacks}, DELIVERY_LACKS, "keeps asking"},
        {"one stored, one lacks", {&stored, &lacks}, DELIVERY_LACKS, "keeps asking"},
        {"one is ahead", {&stale}, DELIVERY_STALE, "revision 7 has ended, and revision 9"},
        {"stored, then ahead", {&stored, &stale}, DELIVERY_STALE, "revision 9"},
        {"another is at an address", {&stranger, &stored, &stored}, DELIVERY_STORED, ""},
        {"at two addresses", {&stranger, &stranger}, DELIVERY_UNRESPONSIVE, "another store"},
        {"two are behind", {&early, &early}, DELIVERY_EARLY, "not loaded revision 7"},
        {"one stored, two dead", {&stored, &dead, &dead}, DELIVERY_UNRESPONSIVE, "1 did: dead"},
        {"two dead", {&dead, &dead}, DELIVERY_UNRESPONSIVE, "0 did: dead"},
        {"two refuse", {&full, &full}, DELIVERY_REFUSED, "full"},
        {"one dead, one refuses", {&dead, &full}, DELIVERY_UNRESPONSIVE, "1 did: dead"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct dist_delivery_core core = {0};
        bool over = false;

        print_message("  %s\n", cases[i].name);
        begin(&core, REVISION, OWNERS, OWNERS);
        for (unsigned j = 0; j < OWNERS && cases[i].answers[j] != NULL; j++) {
            assert_false(over);
            dist_delivery_core_answer(&core, core.replicas[j].send, cases[i].answers[j]);
            over = dist_delivery_core_end_round(&core);
        }
        assert_true(over);
        expect(&core, cases[i].want, cases[i].message);
    }
}

/* For all answers in all orders: each round ends once and at the latest with the last answer, the
 * batch counts as stored exactly if two owners stored it by then, and late answers do not reopen
 * the round. */
static void every_order_of_answers_ends_the_round_exactly_once(void **state)
{
    static const struct dist_delivery_answer *const kinds[] = {&stored, &duplicate, &lacks, &stale,
                                                               &early,  &dead,      &full};
    static const unsigned orders[][OWNERS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                              {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const unsigned n = FG_COUNT(kinds);

    (void)state;
    for (unsigned kind = 0; kind < n * n * n; kind++)
        for (size_t order = 0; order < FG_COUNT(orders); order++) {
            const unsigned of[OWNERS] = {kind % n, kind / n % n, kind / n / n};
            struct dist_delivery_core core = {0};
            struct dist_delivery_result result;
            unsigned ends = 0, n_stored = 0;

            begin(&core, REVISION, OWNERS, OWNERS);
            for (unsigned i = 0; i < OWNERS; i++) {
                unsigned replica = orders[order][i];

                dist_delivery_core_answer(&core, core.replicas[replica].send, kinds[of[replica]]);
                n_stored += of[replica] <= 1;
                if (dist_delivery_core_end_round(&core)) {
                    ends++;
                    dist_delivery_core_result(&core, &result);
                    assert_int_equal(result.state == DELIVERY_STORED, n_stored >= QUORUM);
                }
            }
            assert_int_equal(ends, 1);
            dist_delivery_core_result(&core, &result);
            assert_int_equal(result.state == DELIVERY_STORED, n_stored >= QUORUM);
        }
}

static void the_next_round_skips_replicas_that_have_stored_the_batch(void **state)
{
    struct dist_delivery_core core = {0};

    (void)state;
    begin(&core, REVISION, OWNERS, OWNERS);
    dist_delivery_core_answer(&core, core.replicas[0].send, &stored);
    dist_delivery_core_answer(&core, core.replicas[1].send, &dead);
    assert_false(dist_delivery_core_end_round(&core));
    dist_delivery_core_answer(&core, core.replicas[2].send, &dead);
    assert_true(dist_delivery_core_end_round(&core));
    begin(&core, REVISION, OWNERS, 2);
    dist_delivery_core_answer(&core, core.replicas[2].send, &stored);
    assert_true(dist_delivery_core_end_round(&core));
    expect(&core, DELIVERY_STORED, "");
}

static void copies_stored_under_an_earlier_revision_do_not_count(void **state)
{
    struct dist_delivery_core core = {0};
    uint32_t late;

    (void)state;
    begin(&core, REVISION, OWNERS, OWNERS);
    late = core.replicas[1].send;
    dist_delivery_core_answer(&core, core.replicas[0].send, &stored);
    dist_delivery_core_answer(&core, core.replicas[2].send, &stale);
    assert_true(dist_delivery_core_end_round(&core));
    begin(&core, REVISION + 2, OWNERS, OWNERS);
    dist_delivery_core_answer(&core, late, &stored); /* of the earlier revision */
    dist_delivery_core_answer(&core, core.replicas[0].send, &stored);
    assert_false(dist_delivery_core_end_round(&core));
    dist_delivery_core_answer(&core, core.replicas[1].send, &stored);
    assert_true(dist_delivery_core_end_round(&core));
    expect(&core, DELIVERY_STORED, "");
}

/* Checks what a batch of one profile counts as. */
static void expect_counts(const struct dist_delivery_core *core, uint32_t n_stored,
                          uint32_t n_duplicates)
{
    struct dist_delivery_result result;

    dist_delivery_core_result(core, &result);
    assert_int_equal(result.stored, n_stored);
    assert_int_equal(result.duplicates, n_duplicates);
}

static void what_an_earlier_round_has_stored_is_no_duplicate(void **state)
{
    (void)state;
    for (unsigned late = 0; late <= 1; late++) { /* the answer comes in the second round */
        struct dist_delivery_core core = {0};
        uint32_t first;

        begin(&core, REVISION, OWNERS, OWNERS);
        first = core.replicas[0].send;
        if (!late)
            dist_delivery_core_answer(&core, first, &stored);
        dist_delivery_core_answer(&core, core.replicas[2].send, &stale);
        assert_true(dist_delivery_core_end_round(&core));
        begin(&core, REVISION + 2, OWNERS, OWNERS);
        if (late)
            dist_delivery_core_answer(&core, first, &stored);
        dist_delivery_core_answer(&core, core.replicas[0].send, &duplicate);
        dist_delivery_core_answer(&core, core.replicas[1].send, &duplicate);
        assert_true(dist_delivery_core_end_round(&core));
        expect(&core, DELIVERY_STORED, "");
        expect_counts(&core, 1, 0);
    }
}

static void what_was_there_before_is_a_duplicate_in_all_rounds(void **state)
{
    struct dist_delivery_core core = {0};

    (void)state;
    begin(&core, REVISION, OWNERS, OWNERS);
    dist_delivery_core_answer(&core, core.replicas[0].send, &duplicate);
    dist_delivery_core_answer(&core, core.replicas[2].send, &stale);
    assert_true(dist_delivery_core_end_round(&core));
    begin(&core, REVISION + 2, OWNERS, OWNERS);
    dist_delivery_core_answer(&core, core.replicas[0].send, &duplicate);
    dist_delivery_core_answer(&core, core.replicas[1].send, &duplicate);
    assert_true(dist_delivery_core_end_round(&core));
    expect_counts(&core, 0, 1);
}

/* The sender repeats the batch, and has to tell its own profiles from those of others. */
static void result_that_lacks_definitions_says_what_an_owner_has_stored(void **state)
{
    struct dist_delivery_core core = {0};

    (void)state;
    begin(&core, REVISION, OWNERS, OWNERS);
    dist_delivery_core_answer(&core, core.replicas[0].send, &stored);
    dist_delivery_core_answer(&core, core.replicas[1].send, &lacks);
    assert_true(dist_delivery_core_end_round(&core));
    expect(&core, DELIVERY_LACKS, "keeps asking");
    expect_counts(&core, 1, 0);
}

static void an_owner_without_a_peer_counts_as_unresponsive(void **state)
{
    struct dist_delivery_core core = {0};

    (void)state;
    begin(&core, REVISION, 1, 1);
    assert_true(dist_delivery_core_end_round(&core)); /* no answer is outstanding */
    expect(&core, DELIVERY_UNRESPONSIVE, "0 did: no such host");
    /* The owner has a peer now; the first call is still in flight. */
    begin(&core, REVISION, 2, 1);
    dist_delivery_core_answer(&core, core.replicas[0].send, &stored);
    dist_delivery_core_answer(&core, core.replicas[1].send, &stored);
    assert_true(dist_delivery_core_end_round(&core));
    expect(&core, DELIVERY_STORED, "");
}

static void without_a_ring_the_answer_of_the_ingester_is_final(void **state)
{
    const struct dist_delivery_owners one = {.quorum = 1, .n_owners = 1, .n_keys = 1, .keys = {0}};
    const struct dist_delivery_answer away = {.err = {.code = FG_E_UNAVAILABLE, .msg = "away"}};
    unsigned replicas[FG_RING_REPLICAS_MAX];
    struct dist_delivery_core core = {0};

    (void)state;
    assert_true(dist_delivery_core_begin(&core, &one));
    assert_int_equal(dist_delivery_core_send(&core, replicas), 1);
    assert_false(dist_delivery_core_end_round(&core));
    dist_delivery_core_answer(&core, core.replicas[0].send, &away);
    assert_true(dist_delivery_core_end_round(&core));
    expect(&core, DELIVERY_REFUSED, "away");
}

/* It is sent again, and at the end the client is asked to come back: no conflict of its own. */
static void without_a_ring_an_ingester_that_was_overtaken_is_asked_again(void **state)
{
    const struct dist_delivery_owners one = {.quorum = 1, .n_owners = 1, .n_keys = 1, .keys = {0}};
    const struct dist_delivery_answer overtaken = {
        .err = {.code = FG_E_ABORTED, .msg = "segments are committed faster"}};
    const struct dist_delivery_answer taken = {.stored = 1};
    unsigned replicas[FG_RING_REPLICAS_MAX];
    struct dist_delivery_core core = {0};
    struct dist_delivery_result result;

    (void)state;
    assert_true(dist_delivery_core_begin(&core, &one));
    assert_int_equal(dist_delivery_core_send(&core, replicas), 1);
    dist_delivery_core_answer(&core, core.replicas[0].send, &overtaken);
    assert_true(dist_delivery_core_end_round(&core));
    expect(&core, DELIVERY_UNRESPONSIVE, "segments are committed faster");
    dist_delivery_core_result(&core, &result);
    assert_int_equal(result.err.code, FG_E_UNAVAILABLE);
    (void)dist_delivery_core_begin(&core, &one);
    assert_int_equal(dist_delivery_core_send(&core, replicas), 1);
    dist_delivery_core_answer(&core, core.replicas[0].send, &taken);
    assert_true(dist_delivery_core_end_round(&core));
    expect(&core, DELIVERY_STORED, "");
}

/* Whoever counts growth must know it, although a refusal is a refusal for a client that sends the
 * same profile again. */
static void result_says_whether_an_owner_may_have_stored_the_batch(void **state)
{
    static const struct {
        const char *name;
        const struct dist_delivery_answer *answers[OWNERS];
        enum dist_delivery_state want;
        bool maybe_stored;
    } cases[] = {
        {"all stored", {&stored, &stored, &stored}, DELIVERY_STORED, true},
        {"one stored, two refuse", {&stored, &full, &full}, DELIVERY_REFUSED, true},
        {"one stores it last", {&full, &full, &stored}, DELIVERY_REFUSED, true},
        {"one had it", {&full, &duplicate, &full}, DELIVERY_REFUSED, true},
        {"one does not answer", {&full, &full, &dead}, DELIVERY_REFUSED, true},
        {"one stored, two do not answer", {&stored, &dead, &dead}, DELIVERY_UNRESPONSIVE, true},
        {"all refuse", {&full, &full, &full}, DELIVERY_REFUSED, false},
        {"one lacks definitions", {&lacks, &full, &full}, DELIVERY_REFUSED, false},
        {"one is behind", {&full, &full, &early}, DELIVERY_REFUSED, false},
        {"two are behind, one refuses", {&early, &full, &early}, DELIVERY_EARLY, false},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct dist_delivery_core core = {0};
        struct dist_delivery_result result;

        print_message("  %s\n", cases[i].name);
        begin(&core, REVISION, OWNERS, OWNERS);
        for (unsigned j = 0; j < OWNERS; j++)
            dist_delivery_core_answer(&core, core.replicas[j].send, cases[i].answers[j]);
        assert_true(dist_delivery_core_end_round(&core));
        dist_delivery_core_result(&core, &result);
        assert_int_equal(result.state, cases[i].want);
        assert_int_equal(result.maybe_stored, cases[i].maybe_stored);
    }
}

/* An owner that is still asked when two have refused may store the batch after that. */
static void refusal_with_an_answer_outstanding_is_maybe_stored(void **state)
{
    struct dist_delivery_core core = {0};
    struct dist_delivery_result result;

    (void)state;
    begin(&core, REVISION, OWNERS, OWNERS);
    dist_delivery_core_answer(&core, core.replicas[0].send, &full);
    dist_delivery_core_answer(&core, core.replicas[1].send, &full);
    assert_true(dist_delivery_core_end_round(&core));
    dist_delivery_core_result(&core, &result);
    assert_int_equal(result.state, DELIVERY_REFUSED);
    assert_true(result.maybe_stored);
}

static void owner_without_a_peer_has_stored_nothing(void **state)
{
    struct dist_delivery_core core = {0};
    struct dist_delivery_result result;

    (void)state;
    begin(&core, REVISION, 1, 1);
    dist_delivery_core_answer(&core, core.replicas[0].send, &full);
    assert_true(dist_delivery_core_end_round(&core));
    dist_delivery_core_result(&core, &result);
    assert_false(result.maybe_stored);
}

static void only_a_refusal_waits_for_all_answers(void **state)
{
    static const struct {
        const char *name;
        const struct dist_delivery_answer *answers[OWNERS];
        unsigned n; /* answers that end the round */
        bool maybe_stored;
    } cases[] = {
        {"two stored", {&stored, &stored}, 2, true},
        {"two refuse, one stores", {&full, &full, &stored}, 3, true},
        {"all refuse", {&full, &full, &full}, 3, false},
        {"two are behind", {&early, &early}, 2, true},
        {"two do not answer", {&dead, &dead}, 2, true},
        {"one is ahead", {&stale}, 1, true},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct dist_delivery_owners owners = owners_of(REVISION, OWNERS);
        unsigned replicas[FG_RING_REPLICAS_MAX];
        struct dist_delivery_core core = {0};
        struct dist_delivery_result result;

        print_message("  %s\n", cases[i].name);
        owners.awaits_all = true;
        (void)dist_delivery_core_begin(&core, &owners);
        assert_int_equal(dist_delivery_core_send(&core, replicas), OWNERS);
        for (unsigned j = 0; j < cases[i].n; j++) {
            assert_false(dist_delivery_core_end_round(&core));
            dist_delivery_core_answer(&core, core.replicas[j].send, cases[i].answers[j]);
        }
        assert_true(dist_delivery_core_end_round(&core));
        dist_delivery_core_result(&core, &result);
        assert_int_equal(result.maybe_stored, cases[i].maybe_stored);
    }
}

/* Else whichever of the limits ends first makes the quorum. */
static void limit_is_a_tenants_only_if_it_is_at_all_owners_that_refuse(void **state)
{
    static const struct {
        enum fg_limit_of said[OWNERS], want;
    } cases[] = {
        {{FG_LIMIT_OF_TENANT, FG_LIMIT_OF_TENANT, FG_LIMIT_OF_TENANT}, FG_LIMIT_OF_TENANT},
        {{FG_LIMIT_OF_SERVER, FG_LIMIT_OF_SERVER, FG_LIMIT_OF_SERVER}, FG_LIMIT_OF_SERVER},
        {{FG_LIMIT_OF_TENANT, FG_LIMIT_OF_SERVER, FG_LIMIT_OF_TENANT}, FG_LIMIT_OF_UNSAID},
        {{FG_LIMIT_OF_SERVER, FG_LIMIT_OF_SERVER, FG_LIMIT_OF_TENANT}, FG_LIMIT_OF_UNSAID},
        {{FG_LIMIT_OF_UNSAID, FG_LIMIT_OF_TENANT, FG_LIMIT_OF_TENANT}, FG_LIMIT_OF_UNSAID},
    };
    struct dist_delivery_core core = {0};

    (void)state;
    /* Round after round: one says nothing about the next. */
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct dist_delivery_owners owners = owners_of(REVISION, OWNERS);
        unsigned replicas[FG_RING_REPLICAS_MAX];
        struct dist_delivery_result result;

        owners.awaits_all = true;
        (void)dist_delivery_core_begin(&core, &owners);
        assert_int_equal(dist_delivery_core_send(&core, replicas), OWNERS);
        for (unsigned j = 0; j < OWNERS; j++) {
            struct dist_delivery_answer answer = full;

            answer.limit_of = cases[i].said[j];
            dist_delivery_core_answer(&core, core.replicas[j].send, &answer);
        }
        assert_true(dist_delivery_core_end_round(&core));
        dist_delivery_core_result(&core, &result);
        assert_int_equal(result.state, DELIVERY_REFUSED);
        assert_int_equal(result.limit_of, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_ends_when_further_answers_cannot_change_it),
        cmocka_unit_test(every_order_of_answers_ends_the_round_exactly_once),
        cmocka_unit_test(the_next_round_skips_replicas_that_have_stored_the_batch),
        cmocka_unit_test(copies_stored_under_an_earlier_revision_do_not_count),
        cmocka_unit_test(what_an_earlier_round_has_stored_is_no_duplicate),
        cmocka_unit_test(what_was_there_before_is_a_duplicate_in_all_rounds),
        cmocka_unit_test(result_that_lacks_definitions_says_what_an_owner_has_stored),
        cmocka_unit_test(an_owner_without_a_peer_counts_as_unresponsive),
        cmocka_unit_test(without_a_ring_the_answer_of_the_ingester_is_final),
        cmocka_unit_test(without_a_ring_an_ingester_that_was_overtaken_is_asked_again),
        cmocka_unit_test(result_says_whether_an_owner_may_have_stored_the_batch),
        cmocka_unit_test(refusal_with_an_answer_outstanding_is_maybe_stored),
        cmocka_unit_test(owner_without_a_peer_has_stored_nothing),
        cmocka_unit_test(only_a_refusal_waits_for_all_answers),
        cmocka_unit_test(limit_is_a_tenants_only_if_it_is_at_all_owners_that_refuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
