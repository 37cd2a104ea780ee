#include "tests/unit/proto/jfr/run.h"

#include "tests/lib/batch_folded.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct fg_label series[] = {{FG_LIT("service_name"), FG_LIT("shop")}};

void run_init(struct run *run)
{
    *run = (struct run){
        .request = {.upload = {.labels = {series, 1},
                               .time_ns = 5,
                               .duration_ns = 6,
                               .limits = FG_DECODE_LIMITS_DEFAULT},
                    .sample_rate = 100},
        .arena_max_bytes = RUN_ARENA_MAX_BYTES,
    };
    fg_buf_init(&run->out, SIZE_MAX);
}

void run_done(struct run *run)
{
    fg_buf_done(&run->out);
}

static void put_links(const struct fg_profile *profile, struct fg_buf *out)
{
    for (uint32_t i = 0; i < profile->n_links; i++) {
        fg_buf_printf(out, "@%016" PRIx64 "/", __builtin_bswap64(profile->links[i].span_id));
        for (size_t b = 0; b < FG_ID_BYTES; b++)
            fg_buf_printf(out, "%02x", profile->links[i].trace_id[b]);
        fg_buf_printf(out, " %" PRId64 "\n", profile->values[profile->links[i].sample]);
    }
}

static enum fg_code take_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct run *run = arg;

    if (run->refuse)
        return fg_fail(err, FG_E_UNAVAILABLE, "no place");
    assert_true(batch->n_profiles > 0);
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        struct fg_profile *profile = &batch->profiles[p];
        struct fg_labels labels = {profile->labels.items + 1, profile->labels.count - 1};

        assert_true(fg_slice_is(profile->labels.items[0].name, "__name__"));
        assert_int_equal(profile->time_ns, 5);
        assert_int_equal(profile->duration_ns, 6);
        for (uint32_t t = 0; t < batch->n_types; t++) {
            const struct fg_profile_type type = {
                profile->labels.items[0].value, batch->types[t].type,    batch->types[t].unit,
                batch->period_type.type,        batch->period_type.unit,
            };

            fg_buf_puts(&run->out, "# ");
            fg_profile_type_write(&type, &run->out);
            fg_buf_putc(&run->out, ' ');
            fg_labels_write(&labels, &run->out);
            fg_buf_putc(&run->out, '\n');
            profile_folded(batch, profile, t, &run->out);
        }
        put_links(profile, &run->out);
    }
    run->n_batches++;
    return FG_OK;
}

enum fg_code run_decode(struct run *run, struct fg_slice in)
{
    struct fg_arena *arena = fg_arena_create(run->arena_max_bytes);
    enum fg_code code;

    fg_buf_clear(&run->out);
    run->n_batches = 0;
    run->counts = (struct fg_decode_counts){0};
    code = fg_jfr_decode(in, &run->request, arena, take_batch, run, &run->counts, &run->err);
    run->used_bytes = fg_arena_used_bytes(arena);
    fg_arena_destroy(arena);
    return code;
}

void run_expect_text(struct run *run, struct fg_slice in, const char *want)
{
    if (run_decode(run, in) != FG_OK)
        fail_msg("%s", run->err.msg);
    fg_buf_putc(&run->out, '\0');
    assert_string_equal((const char *)run->out.ptr, want);
}

void run_expect_error(struct run *run, struct fg_slice in, enum fg_code code, const char *text)
{
    assert_int_equal(run_decode(run, in), code);
    if (strstr(run->err.msg, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, run->err.msg);
    assert_int_equal(run->n_batches, 0);
}

void run_check(struct jfr_make *make, const char *want)
{
    struct run run;

    run_init(&run);
    run_expect_text(&run, jfr_make_slice(make), want);
    run_done(&run);
    jfr_make_done(make);
}

void run_check_error(struct jfr_make *make, enum fg_code code, const char *text)
{
    struct run run;

    run_init(&run);
    run_expect_error(&run, jfr_make_slice(make), code, text);
    run_done(&run);
    jfr_make_done(make);
}
