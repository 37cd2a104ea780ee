/* Pages of a resend: they are sent with the ids of their profiles, and passed up to the first one
 * that waits. */
#include "tests/lib/batch_folded.h"
#include "tests/unit/ingester/forward/parcel_expect.h"
#include "tests/unit/ingester/forward/past_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PAGE_PROFILES = 4, ARENA_BYTES = 8 << 20 };

struct page_run {
    struct parcel_run run;
    struct past_run past;
    struct past_profile profiles[PAGE_PROFILES];
    struct ing_page_reader reader;
    atomic_bool stop;
};

/* Begins a resend of four profiles of one tenant, and makes a parcel of the page that has them. */
static void open_page(struct page_run *page, const char *target)
{
    static const char *const tenants[] = {"tenant"};
    struct ing_page read = {0};
    struct fg_err err;

    *page = (struct page_run){0};
    parcel_run_open(&page->run, target);
    past_run_init(&page->past);
    page->past.tenants = tenants;
    page->past.n_tenants = 1;
    page->past.profiles = page->profiles;
    for (; page->past.n < PAGE_PROFILES; page->past.n++)
        page->profiles[page->past.n] =
            (struct past_profile){"tenant", (1 + (int64_t)page->past.n) * FG_SECOND_NS, NULL};
    assert_int_equal(ing_outbox_resend(page->run.common.outbox, 0, 1, 10 * FG_SECOND_NS, &err),
                     FG_OK);
    while (read.n == 0) {
        struct ing_resend resend;

        assert_true(ing_outbox_get_resending(page->run.common.outbox, 0, &resend));
        assert_int_equal(ing_page_read(&page->reader, &page->past.past, &resend, 5, INT64_MAX,
                                       &page->stop, &read, &err),
                         FG_OK);
        if (read.n == 0)
            (void)ing_outbox_note_resend(page->run.common.outbox, 0, &read.before, &read.after);
    }
    assert_int_equal(read.n, PAGE_PROFILES);
    page->run.parcel = ing_parcel_create_of_page(&page->run.common, &page->run.targets->items[0],
                                                 &page->run.peer, 0, &read);
    assert_null(read.items);
}

static struct ing_outbox_numbers end_page_with_numbers(struct page_run *page)
{
    const struct ing_outbox_numbers numbers = parcel_run_end(&page->run);

    parcel_run_close(&page->run);
    return numbers;
}

static struct ing_resend end_page(struct page_run *page)
{
    return end_page_with_numbers(page).resend;
}

static void page_is_sent_with_its_ids_and_passed(void **state)
{
    Forward__V1__Result results[PAGE_PROFILES];
    struct page_run page;
    struct ing_resend resend;

    (void)state;
    open_page(&page, "");
    assert_true(parcel_run_build(&page.run));
    assert_int_equal(page.run.n_batches, PAGE_PROFILES);
    for (size_t i = 0; i < PAGE_PROFILES; i++) {
        results[i] = parcel_run_stored(1);
        assert_int_equal(page.run.batches[i].n_defined, 1);
        assert_true(fg_id_eq(page.run.batches[i].ids[0], past_run_id(&page.profiles[i])));
    }
    results[1].stored = 0;
    results[1].known = 1;
    results[2].stored = 0;
    results[2].dropped = 1; /* by the target's own rules */
    assert_int_equal(page.run.n_via, 1);
    assert_int_equal(parcel_run_answer(&page.run, results, PAGE_PROFILES), SENDER_TAKEN);
    assert_false(parcel_run_build(&page.run));
    resend = end_page(&page);
    assert_int_equal(resend.sent, 3);
    assert_int_equal(resend.known, 1);
    assert_int_equal(resend.filtered, 1);
    assert_true(resend.time_ns >= 4 * FG_SECOND_NS);
}

/* Only what comes before the first profile that has to wait is passed, so none is skipped. */
static void page_is_passed_up_to_what_waits(void **state)
{
    (void)state;
    for (unsigned waits = 0; waits < PAGE_PROFILES; waits++) {
        Forward__V1__Result results[PAGE_PROFILES];
        struct page_run page;
        struct ing_resend resend;

        open_page(&page, "");
        assert_true(parcel_run_build(&page.run));
        for (size_t i = 0; i < PAGE_PROFILES; i++)
            results[i] = parcel_run_stored(1);
        results[waits].stored = 0;
        results[waits].code = 14;
        results[waits].message = (char *)(uintptr_t) "too busy";
        assert_int_equal(parcel_run_answer(&page.run, results, PAGE_PROFILES), SENDER_BUSY);
        resend = end_page(&page);
        assert_int_equal(resend.time_ns, waits == 0 ? 0 : (int64_t)waits * FG_SECOND_NS);
        assert_int_equal(resend.state, RESEND_READS);
        assert_int_equal(resend.sent, waits); /* those behind it are counted when it passes them */
    }
}

static void page_without_an_answer_is_read_again(void **state)
{
    struct page_run page;
    struct ing_resend resend;
    bool unknown;

    (void)state;
    open_page(&page, "");
    assert_true(parcel_run_build(&page.run));
    assert_int_equal(parcel_run_status(&page.run, 503, FG_LIT(""), &unknown), SENDER_BUSY);
    resend = end_page(&page);
    assert_int_equal(resend.time_ns, 0);
    assert_int_equal(resend.sent, 0);
}

static void page_counts_what_is_refused_or_left_out(void **state)
{
    Forward__V1__Result result = parcel_run_stored(1);
    struct page_run page;
    struct ing_resend resend;
    bool unknown;

    (void)state;
    open_page(&page, "selector: '{service_name=\"other\"}'");
    assert_false(parcel_run_build(&page.run));
    assert_int_equal(end_page(&page).filtered, PAGE_PROFILES);
    open_page(&page, "");
    for (unsigned left = PAGE_PROFILES; left > 0; left--) { /* 400: one after another is alone */
        while (parcel_run_build(&page.run) && page.run.n_batches > 1)
            assert_int_equal(parcel_run_status(&page.run, 400,
                                               FG_LIT("{\"code\":\"invalid_argument\"}"), &unknown),
                             SENDER_TAKEN);
        if (left == 2)
            assert_int_equal(parcel_run_status(&page.run, 400,
                                               FG_LIT("{\"code\":\"invalid_argument\"}"), &unknown),
                             SENDER_TAKEN);
        else
            assert_int_equal(parcel_run_answer(&page.run, &result, 1), SENDER_TAKEN);
    }
    assert_false(parcel_run_build(&page.run));
    resend = end_page(&page);
    assert_int_equal(resend.refused, 1);
    assert_int_equal(resend.sent, 3);
    assert_true(resend.time_ns >= 4 * FG_SECOND_NS);
}

static void tenant_that_is_refused_holds_its_page(void **state)
{
    struct ing_outbox_numbers numbers;
    struct page_run page;
    bool unknown;

    (void)state;
    open_page(&page, "");
    page.run.common.several = true;
    assert_true(parcel_run_build(&page.run));
    assert_true(fg_slice_is(page.run.parcel->tenant, "tenant"));
    assert_int_equal(parcel_run_status(&page.run, 403, FG_LIT("no"), &unknown), SENDER_TAKEN);
    assert_false(parcel_run_build(&page.run));
    assert_int_equal(page.run.parcel->n_denied, 1);
    numbers = end_page_with_numbers(&page);
    assert_int_equal(numbers.resend.time_ns, 0);
    assert_int_equal(numbers.resend_held_tenants, 1);
}

/* The target counts as busy. Others, which may not be beyond that limit, have the next page. */
static void unsaid_limit_lets_other_tenants_pass(void **state)
{
    Forward__V1__Result results[PAGE_PROFILES];
    struct ing_outbox_numbers numbers;
    struct page_run page;

    (void)state;
    open_page(&page, "");
    page.run.common.several = true;
    assert_true(parcel_run_build(&page.run));
    for (size_t i = 0; i < PAGE_PROFILES; i++)
        results[i] = parcel_run_beyond(FORWARD__V1__LIMIT_OF__UNSAID, 0);
    assert_int_equal(parcel_run_answer(&page.run, results, PAGE_PROFILES), SENDER_BUSY);
    numbers = end_page_with_numbers(&page);
    assert_int_equal(numbers.resend.time_ns, 0);
    assert_int_equal(numbers.resend_held_tenants, 1);
}

/* What comes after it in the request has an answer of its own. */
static void limit_of_a_tenant_in_the_middle_of_a_page_costs_no_answer(void **state)
{
    static const enum fg_code codes[] = {FG_E_LIMIT, FG_E_DENIED};

    (void)state;
    for (size_t c = 0; c < FG_COUNT(codes); c++) {
        Forward__V1__Refusal refusal = parcel_run_refusal(0, "too many labels"),
                             *refused[] = {&refusal};
        Forward__V1__Result results[PAGE_PROFILES];
        struct page_run page;

        open_page(&page, "");
        page.run.common.several = true;
        assert_true(parcel_run_build(&page.run));
        for (size_t i = 0; i < PAGE_PROFILES; i++)
            results[i] = parcel_run_stored(1);
        results[1] = parcel_run_beyond(FORWARD__V1__LIMIT_OF__TENANT, 0);
        results[1].code = fg_code_grpc(codes[c]);
        results[2] = results[1];
        results[3].stored = 0;
        results[3].refused = refused;
        results[3].n_refused = 1;
        assert_int_equal(parcel_run_answer(&page.run, results, PAGE_PROFILES), SENDER_TAKEN);
        assert_false(parcel_run_build(&page.run));
        assert_int_equal(page.run.parcel->n_denied + page.run.parcel->n_limited, 1);
        assert_int_equal(page.run.parcel->held_ns,
                         codes[c] == FG_E_DENIED ? FG_MINUTE_NS : 10 * FG_SECOND_NS);
        assert_int_equal(end_page(&page).time_ns, FG_SECOND_NS); /* the first one is done */
    }
}

static void page_is_pushed_profile_by_profile(void **state)
{
    struct page_run page;
    bool unknown;

    (void)state;
    open_page(&page, "protocol: push");
    page.run.parcel->push = true;
    for (unsigned i = 0; i < PAGE_PROFILES; i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
        struct fg_batch batch;
        struct fg_buf text;

        assert_true(parcel_run_build(&page.run));
        parcel_run_read_push(fg_buf_slice(&page.run.parcel->body), arena, &batch);
        fg_buf_init(&text, SIZE_MAX);
        batch_describe(&batch, &text);
        assert_true(fg_slice_search(fg_buf_slice(&text), "a;b 1") != SIZE_MAX);
        fg_buf_done(&text);
        assert_int_equal(parcel_run_status(&page.run, 200, FG_LIT(""), &unknown), SENDER_TAKEN);
    }
    assert_false(parcel_run_build(&page.run));
    assert_int_equal(end_page(&page).sent, PAGE_PROFILES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_is_sent_with_its_ids_and_passed),
        cmocka_unit_test(page_is_passed_up_to_what_waits),
        cmocka_unit_test(page_without_an_answer_is_read_again),
        cmocka_unit_test(page_counts_what_is_refused_or_left_out),
        cmocka_unit_test(tenant_that_is_refused_holds_its_page),
        cmocka_unit_test(unsaid_limit_lets_other_tenants_pass),
        cmocka_unit_test(limit_of_a_tenant_in_the_middle_of_a_page_costs_no_answer),
        cmocka_unit_test(page_is_pushed_profile_by_profile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
