#include "tests/unit/ingester/forward/parcel_run.h"

#include "proto/forward.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/store_doubles.h"

#include <stdlib.h>
#include <zstd.h>

enum { ARENA_MAX_BYTES = 64 << 20, STACKS_REMEMBERED = 10000 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fg_assert_failed(err->msg, __FILE__, __LINE__);
}

/* ---- life ---- */

static void open_head(struct parcel_run *run)
{
    const struct ing_forward forward = {run->targets->queues, run->targets->n};

    head_open_forwarding(&run->head, run->store, run->bucket, FG_MINUTE_NS, &forward);
    run->common = ing_parcel_common(run->head.ingester);
    run->common.definition_cache = fg_definition_cache_create(STACKS_REMEMBERED);
}

static void close_head(struct parcel_run *run)
{
    fg_definition_cache_destroy(run->common.definition_cache);
    head_close(&run->head);
}

void parcel_run_open(struct parcel_run *run, const char *target)
{
    char yaml[2048];
    struct fg_err err;

    *run =
        (struct parcel_run){.store = fg_store_memory(HEAD_FAMILIES), .bucket = fg_bucket_memory()};
    (void)snprintf(yaml, sizeof yaml, "[{name: central, url: 'http://127.0.0.1:1'%s%s}]",
                   target[0] == '\0' ? "" : ", ", target);
    must(ing_forward_targets_read(yaml, &run->targets, &err), &err);
    open_head(run);
}

void parcel_run_reopen(struct parcel_run *run)
{
    close_head(run);
    open_head(run);
}

void parcel_run_close(struct parcel_run *run)
{
    close_head(run);
    fg_bucket_close(run->bucket);
    fg_store_close(run->store);
    ing_forward_targets_destroy(run->targets);
    fg_arena_destroy(run->arena);
}

/* ---- profiles ---- */

struct head_profile parcel_run_profile(unsigned n)
{
    static const struct head_sample samples[] = {
        {"a;b", {1, 10}, 0}, {"a;c", {2, 20}, 0}, {"", {3, 30}, 0}};

    return (struct head_profile){
        .tenant = "tenant",
        .service = "shop",
        .time_ns = start_ns + (int64_t)n * FG_SECOND_NS,
        .duration_ns = FG_SECOND_NS,
        .samples = samples,
        .n_samples = FG_COUNT(samples),
    };
}

struct fg_id parcel_run_store(struct parcel_run *run, const struct head_profile *profile)
{
    struct head_pushed pushed;
    struct fg_buf batch;
    struct fg_id id;

    fg_buf_init(&batch, SIZE_MAX);
    id = head_encode(profile, true, 1, &batch);
    pushed = head_push_bytes(&run->head, profile, fg_buf_slice(&batch));
    fg_assert(pushed.code == FG_OK && pushed.stored == 1);
    fg_buf_done(&batch);
    return id;
}

struct fg_id parcel_run_push_of(struct parcel_run *run, unsigned n, const char *tenant,
                                const char *service, const char *zone)
{
    struct head_profile profile = parcel_run_profile(n);

    profile.tenant = tenant;
    profile.service = service;
    profile.zone = zone;
    return parcel_run_store(run, &profile);
}

struct fg_id parcel_run_push(struct parcel_run *run, unsigned n)
{
    return parcel_run_push_of(run, n, "tenant", "shop", NULL);
}

/* ---- requests ---- */

void parcel_run_take(struct parcel_run *run)
{
    struct ing_outbox_span span;

    fg_assert(ing_outbox_take(run->common.outbox, 0, OUTBOX_FRESH, &span) ||
              ing_outbox_take(run->common.outbox, 0, OUTBOX_BACKLOG, &span));
    run->parcel = ing_parcel_create(&run->common, &run->targets->items[0], &run->peer, &span);
}

static struct fg_slice decompress(struct fg_slice in, struct fg_arena *arena)
{
    size_t size = (size_t)ZSTD_getFrameContentSize(in.ptr, in.len);
    uint8_t *out = fg_arena_alloc(arena, size);

    fg_assert(out != NULL && ZSTD_decompress(out, size, in.ptr, in.len) == size);
    return fg_bytes(out, size);
}

static bool find_names(void *arg, const uint64_t *shorts, uint32_t n, struct fg_id *ids)
{
    struct parcel_run *run = arg;

    run->n_short += n > 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < run->n_names && (run->names[k].lo & ((UINT64_C(1) << 48) - 1)) != shorts[i])
            k++;
        if (k == run->n_names)
            return false;
        ids[i] = run->names[k];
    }
    return true;
}

static enum fg_code decode_batch(struct parcel_run *run, struct fg_slice bytes,
                                 struct fg_wire_batch *ret_wire, struct fg_err *err)
{
    const struct fg_stack_names names = {find_names, run};
    enum fg_code code = run->version == 1
                            ? fg_batch_decode(bytes, run->arena, ret_wire, err)
                            : fg_batch_decode_short(bytes, run->arena, &names, ret_wire, err);

    for (uint32_t i = 0; code == FG_OK && i < ret_wire->n_stacks; i++) {
        size_t k = 0;

        while (k < run->n_names && !fg_id_eq(run->names[k], ret_wire->stacks[i].id))
            k++;
        fg_assert(k < PARCEL_NAMES_MAX);
        run->names[k] = ret_wire->stacks[i].id;
        run->n_names = FG_MAX(run->n_names, k + 1);
    }
    return code;
}

static void read_batch(struct parcel_run *run, const Forward__V1__Batch *head,
                       struct fg_slice bytes)
{
    size_t b = run->n_batches++;
    struct fg_wire_batch wire;
    enum fg_code code;
    struct fg_err err;

    fg_assert(b < PARCEL_BATCHES_MAX);
    code = decode_batch(run, bytes, &wire, &err);
    if (code == FG_E_NOT_FOUND) {
        run->n_unnamed++;
        return;
    }
    must(code, &err);
    must(fg_wire_batch_get_sizes(&wire, head->sizes, head->n_sizes, &err), &err);
    fg_assert(wire.n_profiles <= PARCEL_IDS_MAX);
    run->batches[b].n = wire.n_profiles;
    run->batches[b].n_stacks = wire.n_stacks;
    run->batches[b].n_defined = 0;
    for (uint32_t i = 0; i < wire.n_stacks; i++)
        run->batches[b].n_defined += wire.stacks[i].locations != NULL;
    run->batches[b].spans = 0;
    for (uint32_t i = 0; i < wire.n_profiles; i++) {
        const struct fg_profile *profile = &wire.profiles[i];

        run->batches[b].ids[i] = profile->id;
        for (uint32_t k = 0; k < profile->n_links; k++)
            run->batches[b].spans +=
                profile->links[k].span_id * (uint64_t)profile->values[profile->links[k].sample];
    }
    run->n_profiles += wire.n_profiles;
    fg_wire_batch_done(&wire);
}

static void read_request(struct parcel_run *run)
{
    struct fg_slice body = fg_buf_slice(&run->parcel->body), rest;
    Forward__V1__PushRequest *request = forward__v1__push_request__unpack(NULL, body.len, body.ptr);

    fg_assert(request != NULL);
    run->version = request->version;
    run->n_via = request->n_via;
    /* The last one is this server. */
    fg_assert(fg_id_eq(fg_id_get(request->via[request->n_via - 1].data), run->common.store));
    rest = decompress(fg_bytes(request->payload.data, request->payload.len), run->arena);
    for (size_t i = 0; i < request->n_batches; i++) {
        read_batch(run, request->batches[i], fg_slice_sub(rest, 0, request->batches[i]->bytes));
        rest = fg_slice_sub(rest, request->batches[i]->bytes, rest.len);
    }
    fg_assert(rest.len == 0);
    forward__v1__push_request__free_unpacked(request, NULL);
}

bool parcel_run_build(struct parcel_run *run)
{
    struct fg_err err;
    bool more;

    must(ing_parcel_build(run->parcel, &more, &err), &err);
    fg_arena_destroy(run->arena);
    run->arena = fg_arena_create(ARENA_MAX_BYTES);
    run->n_batches = run->n_profiles = run->n_short = run->n_unnamed = 0;
    if (more && !run->parcel->push)
        read_request(run);
    return more;
}

enum ing_sender_result parcel_run_status(struct parcel_run *run, unsigned status,
                                         struct fg_slice body, bool *ret_unknown)
{
    const struct ing_parcel_answer answer = {
        .came = true, .status = status, .body = body, .is_proto = status == 200};
    enum ing_sender_result result;
    struct fg_err err = {0};

    result = ing_parcel_answer(run->parcel, &answer, ret_unknown, &err);
    /* Whoever waits is told why. */
    fg_assert(result == SENDER_TAKEN || err.msg[0] != '\0');
    return result;
}

enum ing_sender_result parcel_run_limited(struct parcel_run *run, int64_t retry_after_ns)
{
    const struct ing_parcel_answer answer = {.came = true,
                                             .status = 429,
                                             .body = FG_LIT("rate limit exceeded"),
                                             .of_limit = true,
                                             .retry_after_ns = retry_after_ns};
    struct fg_err err = {0};
    bool unknown;

    return ing_parcel_answer(run->parcel, &answer, &unknown, &err);
}

enum ing_sender_result parcel_run_answer(struct parcel_run *run, Forward__V1__Result *results,
                                         size_t n)
{
    Forward__V1__PushResponse response = FORWARD__V1__PUSH_RESPONSE__INIT;
    Forward__V1__Result **pointers = fg_calloc(n + 1, sizeof(Forward__V1__Result *));
    enum ing_sender_result result;
    struct fg_buf body;
    bool unknown;

    for (size_t i = 0; i < n; i++)
        pointers[i] = &results[i];
    response.results = pointers;
    response.n_results = n;
    response.version = run->reads;
    fg_buf_init(&body, SIZE_MAX);
    fg_assert(fg_buf_reserve(&body, forward__v1__push_response__get_packed_size(&response) + 1));
    body.len = forward__v1__push_response__pack(&response, body.ptr);
    result = parcel_run_status(run, 200, fg_buf_slice(&body), &unknown);
    fg_assert(!unknown);
    fg_buf_done(&body);
    free(pointers);
    return result;
}

Forward__V1__Result parcel_run_stored(uint32_t n)
{
    Forward__V1__Result result = FORWARD__V1__RESULT__INIT;

    result.stored = n;
    return result;
}

struct ing_outbox_numbers parcel_run_end(struct parcel_run *run)
{
    struct fg_err err;

    ing_parcel_end(fg_take(run->parcel));
    /* A pause that is no change is written with all that was reported before. */
    must(ing_outbox_pause(run->common.outbox, 0, false, &err), &err);
    return ing_outbox_numbers(run->common.outbox, 0);
}
