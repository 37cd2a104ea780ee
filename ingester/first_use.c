#include "ingester/first_use.h"

#include "common/cluster/manifest/manifest.h"
#include "common/cluster/ring/ring.h"

static const int64_t TIMEOUT_NS = 30 * FG_SECOND_NS; /* at the start a bucket may be slow */

/* An object that exists only if something was committed. */
struct trace {
    char name[FG_NAME_MAX_BYTES]; /* "": none */
};

static bool note_trace(const struct fg_bucket_entry *entry, void *arg)
{
    struct trace *trace = arg;
    struct fg_name name;

    /* Objects of others prove nothing. */
    if (!fg_name_parse(fg_cstr(entry->name), &name))
        return true;
    (void)snprintf(trace->name, sizeof trace->name, "%s", entry->name);
    return false;
}

static enum fg_code find_trace(struct fg_bucket *bucket, struct fg_clock *clock,
                               struct fg_bucket_stop *stop, struct trace *ret_trace,
                               struct fg_err *err)
{
    /* Segments and manifests of tenants exist only if ingesters have worked with this bucket, and
     * one name is proof enough. */
    static const char *const prefixes[] = {FG_NAME_TENANTS, FG_NAME_SEGMENTS};
    int64_t deadline_mono_ns = fg_time_add(fg_mono_ns(clock), TIMEOUT_NS);
    struct trace trace = {""};

    for (size_t i = 0; i < FG_COUNT(prefixes) && trace.name[0] == '\0'; i++)
        if (fg_bucket_each_until(bucket, prefixes[i], false, deadline_mono_ns, stop, note_trace,
                                 &trace, err) != FG_OK)
            return err->code;
    *ret_trace = trace;
    return FG_OK;
}

/* Gets an object. *ret_there false: there is none, and *ret_body is empty. */
static enum fg_code get_object(struct fg_bucket *bucket, struct fg_clock *clock,
                               struct fg_bucket_stop *stop, const char *name, size_t max_bytes,
                               bool *ret_there, struct fg_buf *ret_body, struct fg_err *err)
{
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET,
        .name = name,
        .content_max_bytes = max_bytes,
        .deadline_mono_ns = fg_time_add(fg_mono_ns(clock), TIMEOUT_NS),
    };
    enum fg_code code = fg_bucket_call_until(bucket, &get, stop);

    if (code == FG_OK || code == FG_E_NOT_FOUND) {
        *ret_there = code == FG_OK;
        fg_buf_init(ret_body, max_bytes);
        fg_buf_put(ret_body, fg_buf_slice(&get.body));
        code = FG_OK;
    } else {
        *err = get.err;
    }
    fg_bucket_clear(&get); /* a content that broke off is there after an error, too */
    return code;
}

enum fg_code ing_first_use_check_l0(struct fg_bucket *bucket, struct fg_clock *clock, uint64_t seen,
                                    struct fg_bucket_stop *stop, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = {0};
    struct trace trace = {""};
    struct fg_buf body;
    enum fg_code code;
    bool there;

    if (get_object(bucket, clock, stop, FG_RING_NAME, FG_RING_MAX_BYTES, &there, &body, err) !=
        FG_OK)
        return err->code;
    code = there ? fg_ring_decode(fg_buf_slice(&body), arena, &ring, err) : FG_OK;
    fg_buf_done(&body);
    if (code != FG_OK)
        return fg_wrap(err, FG_RING_NAME);
    /* An error is no answer: without a complete listing nobody may create a manifest. */
    if (find_trace(bucket, clock, stop, &trace, err) != FG_OK)
        return err->code;
    if (seen == 0 && ring.generation == 0 && trace.name[0] == '\0')
        return FG_OK;
    return fg_fail(err, FG_E_CORRUPT,
                   FG_NAME_L0 " is lost: generation %llu was known, and %s; nothing is committed "
                              "until it is rebuilt (see flamegrid bucket rebuild)",
                   (unsigned long long)FG_MAX(seen, ring.generation),
                   trace.name[0] == '\0' ? "no object is left" : trace.name);
}

enum fg_code ing_first_use_check_ring(struct fg_bucket *bucket, struct fg_clock *clock,
                                      struct fg_bucket_stop *stop, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES);
    struct fg_l0 l0 = fg_l0_none();
    struct trace trace = {""};
    struct fg_buf body;
    enum fg_code code;
    bool there;

    if (get_object(bucket, clock, stop, FG_NAME_L0, FG_MANIFEST_MAX_BYTES, &there, &body, err) !=
        FG_OK)
        return err->code;
    code = there ? fg_l0_decode(fg_buf_slice(&body), arena, &l0, err) : FG_OK;
    fg_buf_done(&body);
    if (code != FG_OK)
        return fg_wrap(err, FG_NAME_L0);
    if (!there && find_trace(bucket, clock, stop, &trace, err) != FG_OK)
        return err->code;
    if (l0.n_writers == 0 && l0.generation == 0 && trace.name[0] == '\0')
        return FG_OK;
    return fg_fail(err, FG_E_CORRUPT,
                   FG_RING_NAME
                   " is lost: %u ingesters have committed to this bucket%s%s; a new ring is "
                   "created only after an operator allows it (see flamegrid bucket rebuild)",
                   l0.n_writers, trace.name[0] == '\0' ? "" : ", and it contains ", trace.name);
}
