#include "tests/unit/deploy/cli/bucket_fixture.h"

#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

void fixture_must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

void fixture_commit(struct fixture *f, struct fg_store *store, int n)
{
    const struct head_sample sample = {"a;b", {1, 10}, 0};
    struct head head;
    struct fg_err err;

    head_open_on(&head, store, f->bucket);
    for (int i = 0; i < n; i++) {
        const struct head_profile profile = {.tenant = "tenant",
                                             .service = "shop",
                                             .time_ns = (1700000000 + f->pushed++) * FG_SECOND_NS,
                                             .samples = &sample,
                                             .n_samples = 1};

        assert_int_equal(head_push(&head, &profile, true).stored, 1);
    }
    fixture_must(ing_flush(head.ingester, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS, &err), &err);
    head_close(&head);
}

int fixture_set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->store = fg_store_memory(HEAD_FAMILIES);
    f->bucket = fg_bucket_memory();
    f->out = open_memstream(&f->said, &f->said_len);
    fixture_commit(f, f->store, 4);
    *state = f;
    return 0;
}

int fixture_tear_down(void **state)
{
    struct fixture *f = *state;

    (void)fclose(f->out);
    free(f->said);
    fg_bucket_close(f->bucket);
    fg_store_close(f->store);
    free(f);
    return 0;
}

void fixture_put(struct fixture *f, const char *name, struct fg_slice content)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    fixture_must(fg_bucket_call(f->bucket, &put), &put.err);
    fg_bucket_clear(&put);
}

void fixture_delete(struct fixture *f, const char *name)
{
    struct fg_bucket_request gone = {.verb = FG_BUCKET_DELETE, .name = name};

    fixture_must(fg_bucket_call(f->bucket, &gone), &gone.err);
    fg_bucket_clear(&gone);
}
