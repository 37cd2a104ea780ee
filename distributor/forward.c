#include "distributor/forward.h"

#include "common/net/connect.h"
#include "common/runtime/foreground.h"
#include "distributor/forward_read.h"
#include "distributor/upload.h"

#include <stdlib.h>

/* What became of a batch so far. */
struct forward_result {
    uint32_t stored, known, dropped;
    bool define, expand;
    enum fg_code code;   /* why the batch is not stored; FG_OK: no error */
    const char *message; /* in the arena of the request */
    enum fg_limit_of limit_of;
    uint32_t retry_after_s; /* 0: not known */
    Forward__V1__Refusal **refused;
    size_t n_refused;
};

struct forward_push {
    struct dist_upload upload;
    struct fg_http_request *req;
    struct fg_connect_call call;
    struct forward_result
        *results; /* in the arena of the request; NULL: the request was not read */
    size_t n_results;

    /* Of the decoding that is under way, on a worker. */
    struct dist_workspace *space;
    bool is_short;      /* the batches are: version 2 */
    uint64_t names_key; /* of the tenant */
};

/* A full arena leaves the message out. A result takes little memory, and so there is always room
 * for those of the most batches that a request may have. */
static void put_error(struct forward_push *push, struct forward_result *result,
                      const struct fg_err *err, enum fg_limit_of limit_of)
{
    /* The parts of a batch may fail for different reasons, none of which is that of the batch. */
    result->limit_of =
        result->code == FG_OK || result->limit_of == limit_of ? limit_of : FG_LIMIT_OF_UNSAID;
    result->code = err->code;
    result->message = fg_arena_text(fg_http_arena(push->req), fg_cstr(err->msg));
    if (result->message == NULL)
        result->message = "";
}

/* ---- one profile ---- */

static enum fg_code check_profile(struct forward_push *push, const struct fg_batch *batch,
                                  struct fg_profile *profile, bool *ret_kept, struct fg_err *err)
{
    struct dist_upload *upload = &push->upload;

    fg_labels_sort(&profile->labels); /* what is stored is sorted, whoever sent it */
    if (dist_forward_check_values(profile, batch->n_types, err) != FG_OK ||
        dist_upload_check_time(upload, profile, err) != FG_OK)
        return err->code;
    return fg_labels_settle(&profile->labels, &upload->rules, &upload->decode_limits,
                            push->space->arena, ret_kept, err);
}

static bool refuse_profile(struct forward_push *push, struct forward_result *result,
                           uint32_t profile, const struct fg_err *err)
{
    struct fg_arena *arena = fg_http_arena(push->req);
    Forward__V1__Refusal *refusal = fg_arena_new(arena, Forward__V1__Refusal, 1);
    struct fg_slice text = fg_arena_copy(arena, fg_bytes(err->msg, strlen(err->msg) + 1));

    if (refusal == NULL || text.ptr == NULL)
        return false;
    forward__v1__refusal__init(refusal);
    refusal->profile = profile;
    refusal->code = fg_code_grpc(err->code);
    refusal->message = (char *)(uintptr_t)text.ptr;
    result->refused[result->n_refused++] = refusal;
    return true;
}

/* Removes the profiles that are not to be stored, and notes why. */
static enum fg_code keep_profiles(struct forward_push *push, struct fg_batch *batch,
                                  struct forward_result *result, struct fg_err *err)
{
    uint32_t n = batch->n_profiles, kept = 0;

    result->dropped = 0; /* by an earlier attempt */
    result->n_refused = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool keep = true;
        struct fg_err wrong;

        if (check_profile(push, batch, &batch->profiles[i], &keep, &wrong) == FG_OK) {
            result->dropped += !keep;
            if (keep)
                batch->profiles[kept++] = batch->profiles[i];
            continue;
        }
        if (wrong.code == FG_E_TOO_LARGE || wrong.code == FG_E_LIMIT) {
            *err = wrong; /* of this program's memory, not of the profile */
            return err->code;
        }
        if (result->refused == NULL)
            result->refused = fg_arena_new(fg_http_arena(push->req), Forward__V1__Refusal *, n);
        if (result->refused == NULL || !refuse_profile(push, result, i, &wrong))
            /* Invalid, so that the sender divides the batch. */
            return fg_fail(err, FG_E_INVALID, "too many profiles of one request are refused");
    }
    batch->n_profiles = kept;
    return FG_OK;
}

/* ---- one batch ---- */

static bool find_names(void *arg, const uint64_t *shorts, uint32_t n, struct fg_id *ids)
{
    const struct forward_push *push = arg;

    return dist_stack_names_find(push->upload.distributor->stack_names, push->names_key, shorts, n,
                                 ids);
}

static enum fg_code decode_batch(struct forward_push *push, const Forward__V1__Batch *head,
                                 struct fg_slice bytes, struct forward_result *result,
                                 enum fg_limit_of *ret_limit_of, struct fg_err *err)
{
    struct distributor *distributor = push->upload.distributor;
    const struct fg_stack_names names = {find_names, push};
    struct fg_wire_batch wire;
    struct fg_batch batch;
    enum fg_code code = dist_forward_read_batch(bytes, head, push->is_short ? &names : NULL,
                                                &push->upload.decode_limits, push->space->arena,
                                                &wire, &batch, err);

    result->expand = code == FG_E_NOT_FOUND;
    if (result->expand) {
        fg_metric_add(distributor->metrics, DIST_FORWARD_EXPANDED, 1);
        return FG_OK;
    }
    if (code != FG_OK)
        return code;
    /* A sender of version 1 may be one of version 2 that has just started. */
    dist_stack_names_add(distributor->stack_names, push->names_key, wire.stacks, wire.n_stacks);
    fg_foreground_let_pass();
    code = keep_profiles(push, &batch, result, err);
    if (code == FG_OK) {
        code = dist_upload_forward(&push->upload, &batch, err);
        /* Labels say the tenants of profiles, and one of these is at its limit. Nobody is told for
         * how long: the sender has them all as one, and the others are not to wait for a month. */
        *ret_limit_of = code == FG_E_LIMIT ? FG_LIMIT_OF_TENANT : FG_LIMIT_OF_UNSAID;
    }
    fg_wire_batch_done(&wire);
    return code;
}

/* ---- the request (worker) ---- */

/* Refuses what has been here, or at too many servers. */
static enum fg_code check_request(struct forward_push *push,
                                  const Forward__V1__PushRequest *request, struct fg_err *err)
{
    struct dist_upload *upload = &push->upload;
    bool knows = atomic_load(&upload->distributor->knows_own_store);
    uint8_t *via = fg_arena_alloc(push->space->arena, (size_t)FG_FORWARD_VIA_MAX * FG_ID_BYTES);

    if (via == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "the request needs more memory than decoding may use");
    if (dist_forward_check(request, knows ? &upload->distributor->own_store : NULL, via, err) !=
        FG_OK)
        return err->code;
    upload->via = fg_bytes(via, request->n_via * FG_ID_BYTES);
    return FG_OK;
}

static enum fg_code read_request(struct forward_push *push, Forward__V1__PushRequest **ret_request,
                                 struct fg_slice *ret_payload, struct fg_err *err)
{
    const struct dist_settings *settings = push->upload.distributor->settings;
    struct fg_slice message = {NULL, 0};
    ProtobufCMessage *parsed = NULL;
    Forward__V1__PushRequest *request;

    if (dist_workspace_message(push->space, &push->call, settings->body_max_bytes, &message, err) !=
        FG_OK)
        return err->code;
    if (fg_connect_parse(&push->call, message, &forward__v1__push_request__descriptor,
                         push->space->arena, &parsed, err) != FG_OK) {
        push->space->vain_bytes += message.len;
        return err->code;
    }
    request = (Forward__V1__PushRequest *)parsed;
    *ret_request = request;
    *ret_payload = fg_bytes(request->payload.data, request->payload.len);
    if (check_request(push, request, err) != FG_OK ||
        dist_workspace_inflate(push->space, FG_CODING_ZSTD, settings->upload_max_bytes, ret_payload,
                               err) != FG_OK)
        return err->code;
    push->upload.counts.inflated_bytes += ret_payload->len;
    return dist_upload_admit(&push->upload, ret_payload->len, err);
}

static enum fg_code decode(struct dist_upload *upload, struct dist_workspace *space,
                           struct fg_err *err)
{
    struct forward_push *push = fg_container(upload, struct forward_push, upload);
    Forward__V1__PushRequest *request = NULL;
    struct fg_slice rest = {NULL, 0};

    push->space = space;
    push->names_key = dist_stack_names_key(upload->asked_tenant);
    if (read_request(push, &request, &rest, err) != FG_OK)
        return err->code;
    fg_assert(request != NULL); /* read_request() has set it */
    if (dist_forward_check_parts(request, rest.len, err) != FG_OK)
        return err->code;
    if (push->results == NULL) /* else this is another attempt */
        push->results =
            fg_arena_new(fg_http_arena(push->req), struct forward_result, request->n_batches);
    push->n_results = request->n_batches;
    if (push->results == NULL)
        /* The same request would fail again: the sender divides it. */
        return fg_fail(err, FG_E_TOO_LARGE, "a request of %zu batches is too large",
                       request->n_batches);
    push->is_short = request->version > 1;
    dist_workspace_keep(space);
    for (size_t i = 0; i < request->n_batches; i++) {
        const Forward__V1__Batch *head = request->batches[i];
        enum fg_limit_of limit_of = FG_LIMIT_OF_UNSAID;
        struct fg_err wrong;

        fg_foreground_let_pass();
        dist_workspace_next(space);
        upload->tag = (uint32_t)i;
        /* The other batches go on; the sender repeats this one. */
        if (decode_batch(push, head, fg_slice_sub(rest, 0, head->bytes), &push->results[i],
                         &limit_of, &wrong) != FG_OK)
            put_error(push, &push->results[i], &wrong, limit_of);
        rest = fg_slice_sub(rest, head->bytes, rest.len);
    }
    return FG_OK;
}

/* ---- the answer (loop) ---- */

static void settled(struct dist_upload *upload, uint32_t tag,
                    const struct dist_delivery_result *result)
{
    struct forward_push *push = fg_container(upload, struct forward_push, upload);
    struct forward_result *to = &push->results[tag];

    fg_assert(tag < push->n_results);
    switch (result->state) {
    case DELIVERY_STORED:
        to->stored += result->stored;
        to->known += result->duplicates;
        return;
    case DELIVERY_LACKS:
        to->define = true;
        to->stored += result->stored;
        return;
    default:
        put_error(push, to, &result->err, result->limit_of);
        to->retry_after_s = FG_MAX(to->retry_after_s, result->retry_after_s);
        return;
    }
}

static void put_result(const struct forward_result *from, Forward__V1__Result *to)
{
    forward__v1__result__init(to);
    /* The parts of a batch may go to several shards: those that are stored are known the next time.
     */
    if (from->code != FG_OK) {
        to->code = fg_code_grpc(from->code);
        to->message = (char *)(uintptr_t)from->message;
        to->limit_of = (Forward__V1__LimitOf)from->limit_of;
        to->retry_after_s = from->retry_after_s;
        return;
    }
    to->expand = from->expand;
    to->define = from->define && !from->expand;
    if (from->expand)
        return;
    /* With `define`, too: when the batch comes again these are known, and the sender has to tell
     * them from those that were there before. */
    to->stored = from->stored;
    if (from->define)
        return;
    to->known = from->known;
    to->dropped = from->dropped;
    to->refused = from->refused;
    to->n_refused = from->n_refused;
}

static void respond(struct dist_upload *upload)
{
    struct forward_push *push = fg_container(upload, struct forward_push, upload);
    Forward__V1__PushResponse response = FORWARD__V1__PUSH_RESPONSE__INIT;
    Forward__V1__Result *results;
    struct fg_buf body;

    if (push->results == NULL) {
        fg_connect_refuse(push->req, &push->call, &upload->err);
        return;
    }
    results = fg_calloc(push->n_results, sizeof *results);
    response.results = fg_calloc(push->n_results, sizeof(Forward__V1__Result *));
    response.n_results = push->n_results;
    response.version = FG_FORWARD_VERSION;
    for (size_t i = 0; i < push->n_results; i++) {
        put_result(&push->results[i], &results[i]);
        response.results[i] = &results[i];
    }
    fg_buf_init(&body, SIZE_MAX);
    fg_connect_write(&push->call, &response.base, NULL, &body);
    free(response.results);
    free(results);
    fg_connect_respond(push->req, &push->call, &body);
}

void dist_forward_handle(struct fg_http_request *req, void *arg)
{
    static const struct dist_upload_interface interface = {
        .decode = decode, .settled = settled, .respond = respond};
    struct distributor *distributor = arg;
    struct forward_push *push = fg_arena_new(fg_http_arena(req), struct forward_push, 1);
    struct fg_err err;

    fg_assert(push != NULL); /* the first thing in an arena of a MiB */
    if (!fg_connect_accept(req, fg_mono_ns(distributor->clock),
                           distributor->settings->push_timeout_ns, &push->call))
        return;
    push->upload.interface = &interface;
    push->upload.distributor = distributor;
    push->upload.forwards = true;
    push->req = req;
    if (dist_upload_from(&push->upload, req, &err) == FG_OK) {
        dist_upload_start(&push->upload);
        return;
    }
    if (err.code == FG_E_INVALID) /* a tenant's name that is none */
        err.code = FG_E_NO_TENANT;
    fg_connect_refuse(req, &push->call, &err);
}
