/* A request carries the profiles of a span, except those that cannot be sent. */
#include "tests/lib/batch_folded.h"
#include "tests/unit/ingester/forward/parcel_expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARENA_BYTES = 8 << 20 };

/* ---- definitions ---- */

static void what_is_stored_or_known_is_done(void **state)
{
    Forward__V1__Result result = parcel_run_stored(2);
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 5);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_batches, 1);
    assert_int_equal(run.batches[0].n, 5);
    assert_int_equal(run.batches[0].n_stacks, 3);
    assert_int_equal(run.batches[0].n_defined, 3);
    assert_int_equal(run.n_via, 1);
    result.known = 2;
    result.dropped = 1; /* by the rules there: it was named, too */
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    assert_int_equal(run.parcel->n_stored, 2);
    assert_int_equal(run.parcel->n_known, 2);
    parcel_run_end_with(&run, 5, 0, 0);
}

static void stacks_are_defined_once(void **state)
{
    Forward__V1__Result result = parcel_run_stored(1);
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 0);
    for (unsigned n = 0; n < 3; n++) {
        (void)parcel_run_push(&run, n);
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        assert_int_equal(run.batches[0].n_stacks, 3);
        assert_int_equal(run.batches[0].n_defined, n == 0 ? 3 : 0);
        assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
        parcel_run_assert_numbers(parcel_run_end(&run), n + 1, 0, 0);
    }
    parcel_run_close(&run);
}

/* The head stores samples by their stacks, in the order in which these came first: here the other
 * way round than in the profile. The request is read by the decoder that the target has. */
static void spans_are_sent_whatever_the_order_of_samples(void **state)
{
    static const struct head_sample samples[] = {
        {"a;d", {1, 10}, 7}, {"a;c", {2, 20}, 0}, {"a;b", {3, 30}, 5}, {"a;b;c", {4, 40}, 6}};
    static const struct head_sample before[] = {{"a;b;c", {1, 1}, 0}, {"a;c", {1, 1}, 0}};
    Forward__V1__Result result = parcel_run_stored(2);
    struct head_profile profile = parcel_run_profile(0);
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 0);
    profile.samples = before;
    profile.n_samples = FG_COUNT(before);
    (void)parcel_run_store(&run, &profile);
    profile.time_ns += FG_SECOND_NS;
    profile.samples = samples;
    profile.n_samples = FG_COUNT(samples);
    (void)parcel_run_store(&run, &profile);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.batches[0].n, 2);
    assert_int_equal(run.batches[0].spans, 7 * 1 + 5 * 3 + 6 * 4);
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    parcel_run_end_with(&run, 2, 0, 0);
}

/* The target has forgotten what it had. */
static void definitions_that_are_asked_for_are_sent(void **state)
{
    Forward__V1__Result result;
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 1);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    result = parcel_run_stored(1);
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    parcel_run_assert_numbers(parcel_run_end(&run), 1, 0, 0);
    (void)parcel_run_push(&run, 1);
    (void)parcel_run_push(&run, 2);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.batches[0].n_defined, 0);
    result = parcel_run_define();
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.batches[0].n, 2);
    assert_int_equal(run.batches[0].n_defined, 3);
    result = parcel_run_stored(2);
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    parcel_run_end_with(&run, 3, 0, 0);
}

/* Returns how many of three profiles count as known if the target asks for definitions, has stored
 * `before` of them by then, and knows `known` afterwards. */
static uint64_t known_after_define(uint32_t before, uint32_t known)
{
    Forward__V1__Result result = parcel_run_define();
    struct parcel_run run;
    uint64_t n_known;

    parcel_run_open_with(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    result.stored = before;
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    result = parcel_run_stored(3 - known);
    result.known = known;
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    assert_int_equal(run.parcel->n_stored + run.parcel->n_known, 3);
    n_known = run.parcel->n_known;
    parcel_run_end_with(&run, 3, 0, 0);
    return n_known;
}

static void what_this_parcel_has_stored_is_not_known(void **state)
{
    (void)state;
    assert_int_equal(known_after_define(0, 0), 0);
    assert_int_equal(known_after_define(0, 2), 2); /* of another server, or of a lost answer */
    assert_int_equal(known_after_define(2, 2), 0);
    assert_int_equal(known_after_define(1, 3), 2);
    assert_int_equal(known_after_define(3, 0), 0); /* others of its servers have stored them */
    assert_int_equal(known_after_define(UINT32_MAX, 3), 0);
}

/* The other batch of the request has nothing to do with it. */
static void what_is_known_of_another_batch_stays_known(void **state)
{
    Forward__V1__Result results[2];
    struct parcel_run run;
    uint32_t known;

    (void)state;
    parcel_run_open_with(&run, "", 2);
    (void)parcel_run_push_of(&run, 2, "tenant", "cart", NULL);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_batches, 2);
    known = run.batches[1].n;
    results[0] = parcel_run_define();
    results[0].stored = run.batches[0].n;
    results[1] = parcel_run_stored(0);
    results[1].known = known;
    assert_int_equal(parcel_run_answer(&run, results, 2), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_batches, 1);
    results[0] = parcel_run_stored(run.batches[0].n);
    assert_int_equal(parcel_run_answer(&run, results, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    assert_int_equal(run.parcel->n_known, known);
    parcel_run_end_with(&run, 3, 0, 0);
}

static void target_that_asks_twice_is_left_alone(void **state)
{
    Forward__V1__Result result = parcel_run_define();
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 2);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_AWAY);
    parcel_run_end_with(&run, 0, 0, 2);
}

/* ---- short ids ---- */

/* Sends the n-th profile by a parcel of its own; its round is built. */
static void begin_parcel(struct parcel_run *run, unsigned n)
{
    (void)parcel_run_push(run, n);
    parcel_run_take(run);
    assert_true(parcel_run_build(run));
    assert_int_equal(run->n_batches, 1);
}

static void end_parcel(struct parcel_run *run, unsigned n)
{
    Forward__V1__Result result = parcel_run_stored(1);

    assert_int_equal(parcel_run_answer(run, &result, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(run));
    parcel_run_assert_numbers(parcel_run_end(run), n + 1, 0, 0);
}

static void ids_are_short_once_the_target_says_that_it_reads_them(void **state)
{
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 0);
    for (unsigned n = 0; n < 4; n++) {
        run.reads = n < 2 ? n : 7; /* a later one reads ours, too */
        begin_parcel(&run, n);
        assert_int_equal(run.version, n <= 2 ? 1 : 2);
        assert_int_equal(run.n_short, n <= 2 ? 0 : 1);
        assert_int_equal(run.n_unnamed, 0);
        assert_int_equal(run.batches[0].n_stacks, 3);
        end_parcel(&run, n);
    }
    parcel_run_close(&run);
}

static void stacks_that_are_defined_have_whole_ids(void **state)
{
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 0);
    run.reads = 2;
    atomic_store(&run.peer.version, 2);
    begin_parcel(&run, 0); /* nothing is known there, nor has to be */
    assert_int_equal(run.n_short, 0);
    assert_int_equal(run.batches[0].n_defined, 3);
    end_parcel(&run, 0);
    parcel_run_close(&run);
}

/* As when it has restarted. */
static void target_that_does_not_know_short_ids_gets_whole_ones(void **state)
{
    Forward__V1__Result result = parcel_run_expand();
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 0);
    run.reads = 2;
    begin_parcel(&run, 0);
    end_parcel(&run, 0);
    run.n_names = 0;
    begin_parcel(&run, 1);
    assert_int_equal(run.n_unnamed, 1);
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_short, 0);
    assert_int_equal(run.batches[0].n_stacks, 3);
    assert_int_equal(run.batches[0].n_defined, 0);
    end_parcel(&run, 1);
    begin_parcel(&run, 2);
    assert_int_equal(run.n_short, 1); /* once is no habit */
    /* Whole ids are asked for in vain. */
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_AWAY);
    parcel_run_end_with(&run, 2, 0, 1);
}

/* As when each request reaches another server of it. */
static void target_that_forgets_all_the_time_gets_whole_ids(void **state)
{
    Forward__V1__Result result = parcel_run_expand();
    unsigned n, asked = 0;
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 0);
    run.reads = 2;
    for (n = 0; n < 100; n++) {
        begin_parcel(&run, n);
        if (run.n_short > 0) {
            asked++;
            run.n_names = 0;
            assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
            assert_true(parcel_run_build(&run));
        }
        end_parcel(&run, n);
    }
    assert_in_range(asked, 5, 7); /* after 0, 2, 6, 14, 30 and 62 whole ones */
    for (n = 100; n < 240; n++) { /* and it remembers again */
        begin_parcel(&run, n);
        asked = (unsigned)run.n_short;
        end_parcel(&run, n);
    }
    assert_int_equal(asked, 1);
    parcel_run_close(&run);
}

/* Of several servers behind one address, one is older. */
static void server_that_does_not_read_short_ids_gets_version_1(void **state)
{
    struct parcel_run run;
    bool unknown;

    (void)state;
    parcel_run_open_with(&run, "", 0);
    run.reads = 2;
    begin_parcel(&run, 0);
    end_parcel(&run, 0);
    begin_parcel(&run, 1);
    assert_int_equal(run.version, 2);
    assert_int_equal(
        parcel_run_status(&run, 400, FG_LIT("{\"code\":\"failed_precondition\"}"), &unknown),
        SENDER_TAKEN);
    assert_false(unknown);
    run.reads = 0;
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.version, 1);
    end_parcel(&run, 1);
    begin_parcel(&run, 2);
    assert_int_equal(run.version, 1);
    /* Nor does it read that one: it is asked for push.v1. */
    assert_int_equal(
        parcel_run_status(&run, 400, FG_LIT("{\"code\":\"failed_precondition\"}"), &unknown),
        SENDER_AWAY);
    assert_true(unknown);
    parcel_run_end_with(&run, 2, 0, 1);
}

/* ---- selection and rules ---- */

static void selector_leaves_profiles_out(void **state)
{
    struct parcel_run run;
    struct fg_id wanted;

    (void)state;
    parcel_run_open_with(&run, "selector: '{zone=\"b\"}'", 2);
    (void)parcel_run_push_of(&run, 2, "tenant", "shop", "a");
    wanted = parcel_run_push_of(&run, 3, "tenant", "shop", "b");
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_profiles, 1);
    assert_true(fg_id_eq(run.batches[0].ids[0], wanted));
    assert_int_equal(run.parcel->n_filtered, 3);
    parcel_run_store_all(&run);
    assert_false(parcel_run_build(&run));
    parcel_run_end_with(&run, 4, 0, 0);
}

static void rules_may_drop_all(void **state)
{
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(
        &run, "relabel: [{action: drop, source_labels: [service_name], regex: sh.*}]", 3);
    parcel_run_take(&run);
    assert_false(parcel_run_build(&run)); /* without a request */
    assert_int_equal(run.parcel->n_filtered, 3);
    parcel_run_end_with(&run, 3, 0, 0);
}

static void types_may_all_be_dropped(void **state)
{
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run,
                         "sample_types: [{action: drop, source_labels: [__type__], regex: .*}]", 3);
    parcel_run_take(&run);
    assert_false(parcel_run_build(&run));
    assert_int_equal(run.parcel->n_filtered, 3);
    parcel_run_end_with(&run, 3, 0, 0);
}

/* A request says of which tenant it is, so it has profiles of one. */
static void tenants_have_requests_of_their_own(void **state)
{
    static const char *const tenants[] = {"a", "b", "c"};
    unsigned seen[FG_COUNT(tenants)] = {0};
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "", 0);
    run.common.several = true;
    for (unsigned n = 0; n < 9; n++)
        (void)parcel_run_push_of(&run, n, tenants[n % 3], "shop", NULL);
    parcel_run_take(&run);
    while (parcel_run_build(&run)) {
        for (size_t t = 0; t < FG_COUNT(tenants); t++)
            if (fg_slice_is(run.parcel->tenant, tenants[t]))
                seen[t] += (unsigned)run.n_profiles;
        assert_int_equal(run.n_profiles, 3);
        parcel_run_store_all(&run);
    }
    for (size_t t = 0; t < FG_COUNT(tenants); t++)
        assert_int_equal(seen[t], 3);
    parcel_run_end_with(&run, 9, 0, 0);
}

static void tenant_of_the_target_replaces_ours(void **state)
{
    struct parcel_run run;

    (void)state;
    parcel_run_open_with(&run, "tenant: team-a", 1);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_true(fg_slice_is(run.parcel->tenant, "team-a"));
    parcel_run_end_with(&run, 0, 0, 1);
    parcel_run_open_with(&run, "", 1); /* without tenancy here and there */
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.parcel->tenant.len, 0);
    parcel_run_end_with(&run, 0, 0, 1);
}

/* ---- what cannot be sent ---- */

static void profile_that_has_passed_four_servers_is_refused(void **state)
{
    uint8_t via[OUTBOX_VIA_MAX * FG_ID_BYTES];
    struct parcel_run run;
    struct fg_id ids[OUTBOX_VIA_MAX + 1];
    unsigned rounds = 0;

    (void)state;
    parcel_run_open(&run, "");
    for (unsigned n = 0; n < OUTBOX_VIA_MAX; n++)
        fg_id_put(via + (size_t)n * FG_ID_BYTES, (struct fg_id){n + 1, 5});
    for (unsigned n = 0; n <= OUTBOX_VIA_MAX; n++) {
        struct head_profile profile = parcel_run_profile(n);

        profile.via = fg_bytes(via, (size_t)n * FG_ID_BYTES);
        ids[n] = parcel_run_store(&run, &profile);
    }
    parcel_run_take(&run);
    for (; parcel_run_build(&run); rounds++) { /* those of one way together */
        assert_int_equal(run.n_profiles, 1);
        assert_int_equal(run.n_via, rounds + 1);
        assert_true(fg_id_eq(run.batches[0].ids[0], ids[rounds]));
        parcel_run_store_all(&run);
    }
    assert_int_equal(rounds, OUTBOX_VIA_MAX);
    parcel_run_assert_numbers(parcel_run_end(&run), OUTBOX_VIA_MAX, 1, 0);
    parcel_run_assert_dead(&run, ids[OUTBOX_VIA_MAX], "it has passed four servers");
    parcel_run_close(&run);
}

/* Changes the record of a profile in the store. Returns the id of the profile. */
static void damage(struct parcel_run *run, struct fg_id id, void (*change)(struct fg_buf *record))
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(run->store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    struct ing_head_profile_key key;
    struct fg_store_batch batch;
    struct fg_buf record;
    struct fg_err err;

    while (iter->valid && !(ing_head_get_profile_key(iter->key, &key) && fg_id_eq(key.id, id)))
        fg_store_iter_next(iter);
    assert_true(iter->valid);
    fg_buf_init(&record, SIZE_MAX);
    fg_buf_put(&record, iter->value);
    change(&record);
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_PROFILES, iter->key, fg_buf_slice(&record));
    assert_int_equal(fg_store_write(run->store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    fg_buf_done(&record);
}

static void cut_front(struct fg_buf *record)
{
    record->len = 1;
}

static void cut_samples(struct fg_buf *record)
{
    record->len -= 8;
}

static void other_version(struct fg_buf *record)
{
    record->ptr[0] = 99;
}

static void other_dictionary(struct fg_buf *record)
{
    record->ptr[1] = 99; /* its generation: there is none */
}

/* Only the damaged one is dead, whatever else is in its batch. */
static void damaged_profile_costs_no_other(void **state)
{
    static void (*const changes[])(struct fg_buf *) = {cut_front, cut_samples, other_version,
                                                       other_dictionary};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(changes); i++)
        for (unsigned bad = 0; bad < 3; bad++) {
            struct fg_id ids[3];
            struct parcel_run run;

            print_message("  damage %zu of profile %u\n", i, bad);
            parcel_run_open(&run, "");
            for (unsigned n = 0; n < 3; n++)
                ids[n] = parcel_run_push(&run, n);
            damage(&run, ids[bad], changes[i]);
            parcel_run_take(&run);
            while (parcel_run_build(&run))
                parcel_run_store_all(&run);
            parcel_run_assert_numbers(parcel_run_end(&run), 2, 1, 0);
            parcel_run_assert_dead(&run, ids[bad], "");
            parcel_run_close(&run);
        }
}

/* The tenant has no name any more, so nobody knows whose the profile is. */
static void profile_of_a_lost_tenant_is_refused(void **state)
{
    struct fg_store_batch batch;
    struct fg_id lost, other;
    struct parcel_run run;
    struct fg_err err;

    (void)state;
    parcel_run_open(&run, "");
    lost = parcel_run_push_of(&run, 0, "a", "shop", NULL);
    other = parcel_run_push_of(&run, 1, "b", "shop", NULL);
    fg_store_batch_init(&batch);
    fg_store_delete(&batch, HEAD_META, FG_LIT("ta"));
    assert_int_equal(fg_store_write(run.store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    parcel_run_reopen(&run);
    run.common.several = true;
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_profiles, 1);
    assert_true(fg_id_eq(run.batches[0].ids[0], other));
    assert_true(fg_slice_is(run.parcel->tenant, "b"));
    parcel_run_store_all(&run);
    assert_false(parcel_run_build(&run));
    parcel_run_assert_numbers(parcel_run_end(&run), 1, 1, 0);
    parcel_run_assert_dead(&run, lost, "the record of its tenant is lost");
    parcel_run_close(&run);
}

/* ---- credentials ---- */

static void write_file(const char *path, struct fg_slice text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text.ptr, 1, text.len, file), text.len);
    assert_int_equal(fclose(file), 0);
}

static void login_is_read_for_each_round(void **state)
{
    char path[] = "/tmp/flamegrid-test-login.XXXXXX", target[256], long_text[1026];
    struct parcel_run run;
    struct fg_err err;
    int fd = mkstemp(path);
    bool more;

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    (void)snprintf(target, sizeof target, "username: me, password_file: %s", path);
    parcel_run_open_with(&run, target, 1);
    parcel_run_take(&run);
    write_file(path, FG_LIT("secret\n"));
    assert_true(parcel_run_build(&run));
    assert_true(fg_slice_is(fg_buf_slice(&run.parcel->login), "bWU6c2VjcmV0"));
    write_file(path, FG_LIT("other"));
    assert_true(parcel_run_build(&run));
    assert_true(fg_slice_is(fg_buf_slice(&run.parcel->login), "bWU6b3RoZXI="));
    memset(long_text, 'x', sizeof long_text);
    write_file(path, fg_bytes((const uint8_t *)long_text, 1024));
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.parcel->login.len, (3 + 1024 + 2) / 3 * 4);
    /* Without a password nothing is sent: the target would count vain logins. */
    write_file(path, fg_bytes((const uint8_t *)long_text, 1025));
    assert_int_equal(ing_parcel_build(run.parcel, &more, &err), FG_E_INVALID);
    assert_non_null(strstr(err.msg, "a password of 1025 bytes, not 1 to 1024"));
    write_file(path, FG_LIT("\n"));
    assert_int_equal(ing_parcel_build(run.parcel, &more, &err), FG_E_INVALID);
    assert_int_equal(unlink(path), 0);
    assert_int_not_equal(ing_parcel_build(run.parcel, &more, &err), FG_OK);
    assert_non_null(strstr(err.msg, path));
    parcel_run_end_with(&run, 0, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored_or_known_is_done),
        cmocka_unit_test(stacks_are_defined_once),
        cmocka_unit_test(spans_are_sent_whatever_the_order_of_samples),
        cmocka_unit_test(definitions_that_are_asked_for_are_sent),
        cmocka_unit_test(what_this_parcel_has_stored_is_not_known),
        cmocka_unit_test(what_is_known_of_another_batch_stays_known),
        cmocka_unit_test(target_that_asks_twice_is_left_alone),
        cmocka_unit_test(ids_are_short_once_the_target_says_that_it_reads_them),
        cmocka_unit_test(stacks_that_are_defined_have_whole_ids),
        cmocka_unit_test(target_that_does_not_know_short_ids_gets_whole_ones),
        cmocka_unit_test(target_that_forgets_all_the_time_gets_whole_ids),
        cmocka_unit_test(server_that_does_not_read_short_ids_gets_version_1),
        cmocka_unit_test(selector_leaves_profiles_out),
        cmocka_unit_test(rules_may_drop_all),
        cmocka_unit_test(types_may_all_be_dropped),
        cmocka_unit_test(tenants_have_requests_of_their_own),
        cmocka_unit_test(tenant_of_the_target_replaces_ours),
        cmocka_unit_test(profile_that_has_passed_four_servers_is_refused),
        cmocka_unit_test(damaged_profile_costs_no_other),
        cmocka_unit_test(profile_of_a_lost_tenant_is_refused),
        cmocka_unit_test(login_is_read_for_each_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
