#include "tests/unit/ingester/forward/past_run.h"

#include "common/base/time.h"

#include <stdlib.h>

enum { ARENA_MAX_BYTES = 16 << 20 };

static enum fg_code commit(void *arg, int64_t deadline_mono_ns, struct fg_err *err)
{
    struct past_run *run = arg;

    (void)deadline_mono_ns;
    run->commits++;
    return run->commit == FG_OK ? FG_OK : fg_fail(err, run->commit, "the commit fails");
}

static enum fg_code tenants(void *arg, int64_t deadline_mono_ns, struct fg_arena *arena,
                            struct fg_slice **ret_names, size_t *ret_n, struct fg_err *err)
{
    const struct past_run *run = arg;

    (void)deadline_mono_ns;
    (void)err;
    *ret_names = fg_arena_new(arena, struct fg_slice, run->n_tenants);
    *ret_n = run->n_tenants;
    for (size_t i = 0; i < run->n_tenants; i++)
        (*ret_names)[i] = fg_cstr(run->tenants[i]);
    return FG_OK;
}

static bool is_in(const struct past_profile *profile, const struct ing_past_range *range)
{
    return fg_slice_is(range->tenant, profile->tenant) &&
           profile->time_ns >= range->start_ms * FG_MS_NS &&
           profile->time_ns <= range->end_ms * FG_MS_NS;
}

static enum fg_code count(void *arg, const struct ing_past_range *range,
                          struct ing_past_counts *ret_counts, struct fg_err *err)
{
    const struct past_run *run = arg;

    fg_assert(range->start_ms <= range->end_ms);
    if (run->count != FG_OK)
        return fg_fail(err, run->count, "the bucket is away");
    *ret_counts = (struct ing_past_counts){.lost = run->lost};
    for (size_t i = 0; i < run->n; i++)
        ret_counts->profiles += is_in(&run->profiles[i], range);
    return FG_OK;
}

static struct head_profile made(const struct past_profile *profile, struct head_sample *sample)
{
    *sample = (struct head_sample){profile->stack == NULL ? "a;b" : profile->stack, {1, 10}, 0};
    return (struct head_profile){.tenant = profile->tenant,
                                 .service = "shop",
                                 .time_ns = profile->time_ns,
                                 .samples = sample,
                                 .n_samples = 1};
}

static enum fg_code visit_one(const struct past_profile *profile, ing_past_visit visit, void *arg,
                              struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct head_sample sample;
    struct head_profile head = made(profile, &sample);
    struct fg_wire_batch wire;
    struct fg_batch batch;
    struct fg_buf bytes;
    enum fg_code code;

    fg_buf_init(&bytes, SIZE_MAX);
    (void)head_encode(&head, true, 1, &bytes);
    fg_assert(fg_batch_decode(fg_buf_slice(&bytes), arena, &wire, err) == FG_OK &&
              fg_batch_of_wire(&wire, arena, &batch));
    code = visit(arg, &batch, err);
    fg_wire_batch_done(&wire);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
    return code;
}

static enum fg_code visit_all(void *arg, const struct ing_past_range *range, ing_past_visit visit,
                              void *visit_arg, struct fg_err *err)
{
    struct past_run *run = arg;

    run->visits++;
    run->partials += range->partial;
    if (run->fails > 0) {
        run->fails--;
        return fg_fail(err, FG_E_UNAVAILABLE, "the bucket is away");
    }
    for (size_t i = 0; i < run->n; i++) {
        const struct past_profile *profile = &run->profiles[run->n - 1 - i];

        if (!is_in(profile, range))
            continue;
        if (profile->time_ns == run->damaged_ns && range->partial)
            continue;
        if (profile->time_ns == run->damaged_ns)
            return fg_fail(err, FG_E_CORRUPT, "a page cannot be read");
        for (unsigned k = 0; k <= run->twice; k++) {
            run->visited++;
            if (visit_one(profile, visit, visit_arg, err) != FG_OK)
                return err->code;
        }
    }
    return FG_OK;
}

void past_run_init(struct past_run *run)
{
    run->past = (struct ing_past){commit, tenants, count, visit_all, run};
}

struct fg_id past_run_id(const struct past_profile *profile)
{
    struct head_sample sample;
    struct head_profile head = made(profile, &sample);
    struct fg_buf bytes;
    struct fg_id id;

    fg_buf_init(&bytes, SIZE_MAX);
    id = head_encode(&head, true, 1, &bytes);
    fg_buf_done(&bytes);
    return id;
}
