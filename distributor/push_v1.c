#include "distributor/push_v1.h"

#include "common/net/connect.h"
#include "distributor/labels.h"
#include "distributor/upload.h"
#include "proto/pprof/pprof.h"
#include "proto/push.h"
#include "proto/push_v1.pb-c.h"

struct v1_push {
    struct dist_upload upload;
    struct fg_http_request *req;      /* NULL: of this process's own profiles, */
    struct fg_self_profile_push *own; /* ... which this one brought */
    struct fg_connect_call call;

    /* Of the decoding that is under way, on a worker. */
    struct dist_workspace *space;
    uint64_t inflated_bytes; /* of all profiles so far */
    uint64_t message_bytes;  /* in protobuf */
};

/* ---- one profile ---- */

/* A name twice is a mistake of the client's that must not be hidden by taking one of the values. */
static enum fg_code check_repeated(const struct fg_labels *labels, struct fg_err *err)
{
    for (size_t i = 1; i < labels->count; i++) {
        struct fg_slice name = labels->items[i].name;
        struct fg_buf set;

        if (!fg_slice_eq(name, labels->items[i - 1].name))
            continue;
        fg_buf_init(&set, FG_ERR_MSG_MAX_BYTES / 2);
        fg_labels_write(labels, &set);
        (void)fg_fail(err, FG_E_INVALID,
                      "profile with labels '%.*s' has duplicate label name: '%.*s'",
                      FG_S(fg_buf_slice(&set)), FG_S(fg_slice_sub(name, 0, 100)));
        fg_buf_done(&set);
        return err->code;
    }
    return FG_OK;
}

static int cmp_names(const void *a, const void *b)
{
    const struct fg_label *x = a, *y = b;

    return fg_slice_cmp(x->name, y->name);
}

/* The series' labels: the same for all its profiles. */
static enum fg_code labels_of(struct v1_push *push, const struct fg_push_series *series,
                              struct fg_labels *ret_labels, struct fg_err *err)
{
    size_t count = series->labels.count;
    struct fg_labels labels = {fg_arena_new(push->space->arena, struct fg_label, count), count};

    if (labels.items == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "push needs more memory than decoding may use");
    if (count > 0)
        memcpy(labels.items, series->labels.items, count * sizeof *labels.items);
    /* Sorted here, because check_repeated() compares neighbours. */
    qsort(labels.items, count, sizeof *labels.items, cmp_names);
    if (check_repeated(&labels, err) != FG_OK)
        return err->code;
    return dist_series_labels(&labels, &push->upload.limits->values, push->space->arena, ret_labels,
                              err);
}

static unsigned quirks_of(const struct fg_labels *labels)
{
    struct fg_slice spy = fg_labels_get(labels, "pyroscope_spy");

    if (fg_slice_is(spy, "gospy"))
        return FG_PPROF_GO;
    return spy.len > 0 ? FG_PPROF_NOT_GO : 0;
}

static enum fg_code inflate(struct v1_push *push, struct fg_slice *profile, struct fg_err *err)
{
    size_t sent_bytes = profile->len;
    const struct distributor *distributor = push->upload.distributor;
    uint64_t max = push->upload.limits->values.max_profile_size_bytes;
    uint64_t max_all = distributor->settings->upload_max_bytes;

    if (dist_workspace_inflate(push->space, fg_coding_sniff(*profile), max, profile, err) != FG_OK)
        return err->code == FG_E_TOO_LARGE
                   ? fg_fail(err, FG_E_INVALID,
                             "uncompressed profile payload size exceeds limit of %llu bytes "
                             "(limits.max_profile_size_bytes)",
                             (unsigned long long)max)
                   : err->code;
    push->upload.counts.inflated_bytes += profile->len;
    push->inflated_bytes += profile->len;
    /* Counted after decompression: small gzip bodies with large contents are the attack. The
     * workspace has bounded the profile that exceeds the sum. */
    if (push->inflated_bytes > max_all)
        return fg_fail(err, FG_E_TOO_LARGE,
                       "uncompressed batched profile payload size exceeds limit of %llu bytes "
                       "(distributor.upload_max_bytes)",
                       (unsigned long long)max_all);
    dist_upload_measure(&push->upload, sent_bytes, push->message_bytes, profile->len);
    /* After decompression: the tenant's rate counts what has to be stored, not how well it was
     * compressed. */
    return dist_upload_admit(&push->upload, profile->len, err);
}

static enum fg_code decode_profile(struct v1_push *push, const struct fg_labels *labels,
                                   struct fg_slice profile, struct fg_err *err)
{
    struct dist_upload *upload = &push->upload;
    struct fg_pprof_request request = {
        .upload = {.labels = *labels,
                   .time_ns = upload->now_ns,
                   .limits = upload->decode_limits,
                   .rules = &upload->rules},
        .quirks = quirks_of(labels),
    };
    struct fg_pprof_info info;
    struct fg_batch batch;

    if (inflate(push, &profile, err) != FG_OK ||
        fg_pprof_decode(profile, &request, push->space->arena, &batch, &info,
                        &upload->counts.decode, err) != FG_OK)
        return err->code;
    return dist_upload_add(upload, &batch, info.has_time, err);
}

/* ---- the request (worker) ---- */

/* JSON becomes the same bytes that protobuf would have been: there is one way to read them. */
static enum fg_code transcode(struct v1_push *push, struct fg_slice *message, struct fg_err *err)
{
    ProtobufCMessage *parsed = NULL;
    size_t len;
    uint8_t *bytes;

    if (fg_connect_parse(&push->call, *message, &push__v1__push_request__descriptor,
                         push->space->arena, &parsed, err) != FG_OK)
        return err->code;
    len = protobuf_c_message_get_packed_size(parsed);
    bytes = fg_arena_alloc(push->space->arena, len);
    if (bytes == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "push needs more memory than decoding may use");
    *message = fg_bytes(bytes, protobuf_c_message_pack(parsed, bytes));
    return FG_OK;
}

static enum fg_code read_message(struct v1_push *push, struct fg_slice message,
                                 struct fg_push *ret_push, struct fg_err *err)
{
    if (push->call.json && transcode(push, &message, err) != FG_OK)
        return err->code;
    push->message_bytes = message.len;
    if (fg_push_read(message, push->space->arena, ret_push, err) != FG_OK)
        return err->code;
    return ret_push->n_profiles > 0 ? FG_OK : fg_fail(err, FG_E_INVALID, "no profiles received");
}

static enum fg_code read_request(struct v1_push *push, struct fg_push *ret_push, struct fg_err *err)
{
    uint64_t max = push->upload.distributor->settings->body_max_bytes;
    struct fg_slice message = {NULL, 0};

    if (dist_workspace_message(push->space, &push->call, max, &message, err) != FG_OK)
        return err->code;
    if (read_message(push, message, ret_push, err) == FG_OK)
        return FG_OK;
    /* Nothing of it is admitted, so nothing else counts it. */
    push->space->vain_bytes += message.len;
    return err->code;
}

static enum fg_code decode_series(struct v1_push *push, const struct fg_push_series *series,
                                  struct fg_err *err)
{
    struct fg_labels labels;

    dist_workspace_next(push->space); /* what the series before made is not needed */
    if (labels_of(push, series, &labels, err) != FG_OK)
        return err->code;
    /* The labels of the series stay for all of its profiles; what a profile needs is dropped after
     * it. */
    dist_workspace_keep(push->space);
    for (uint32_t i = 0; i < series->n_profiles; i++) {
        struct fg_err wrong;

        dist_workspace_next(push->space);
        if (decode_profile(push, &labels, series->profiles[i], &wrong) == FG_OK)
            continue;
        if (push->inflated_bytes > push->upload.distributor->settings->upload_max_bytes) {
            *err = wrong; /* there is no end to what might come */
            return err->code;
        }
        dist_upload_note(&push->upload, &wrong);
    }
    return FG_OK;
}

static enum fg_code decode(struct dist_upload *upload, struct dist_workspace *space,
                           struct fg_err *err)
{
    struct v1_push *push = fg_container(upload, struct v1_push, upload);
    struct fg_push request = {0};

    push->space = space;
    push->inflated_bytes = 0;
    if (read_request(push, &request, err) != FG_OK)
        return err->code;
    /* The message stays: the profiles are slices of it. */
    dist_workspace_keep(space);
    for (uint32_t i = 0; i < request.n_series; i++) {
        struct fg_err wrong;

        if (decode_series(push, &request.series[i], &wrong) == FG_OK)
            continue;
        if (wrong.code == FG_E_TOO_LARGE) {
            *err = wrong;
            return err->code;
        }
        dist_upload_note(upload, &wrong);
    }
    return FG_OK;
}

/* ---- the answer (loop) ---- */

static void respond(struct dist_upload *upload)
{
    struct v1_push *push = fg_container(upload, struct v1_push, upload);
    struct fg_err err = upload->err;
    Push__V1__PushResponse response;
    struct fg_buf body;

    if (err.code != FG_OK) {
        fg_connect_refuse(push->req, &push->call, &err);
        return;
    }
    push__v1__push_response__init(&response);
    fg_buf_init(&body, 1024);
    fg_connect_write(&push->call, &response.base, NULL, &body);
    fg_connect_respond(push->req, &push->call, &body);
}

void dist_push_v1_handle(struct fg_http_request *req, void *arg)
{
    static const struct dist_upload_interface interface = {.decode = decode, .respond = respond};
    struct distributor *distributor = arg;
    struct v1_push *push = fg_arena_new(fg_http_arena(req), struct v1_push, 1);
    struct fg_err err;

    fg_assert(push != NULL); /* the first thing in an arena of a MiB */
    if (!fg_connect_accept(req, fg_mono_ns(distributor->clock),
                           distributor->settings->push_timeout_ns, &push->call))
        return;
    push->upload.interface = &interface;
    push->upload.distributor = distributor;
    push->req = req;
    if (dist_upload_from(&push->upload, req, &err) == FG_OK) {
        dist_upload_start(&push->upload);
        return;
    }
    if (err.code == FG_E_INVALID) /* a tenant's name that is none */
        err.code = FG_E_NO_TENANT;
    fg_connect_refuse(req, &push->call, &err);
}

/* ---- profiles of this process ---- */

static void end_own(struct dist_upload *upload)
{
    struct v1_push *push = fg_container(upload, struct v1_push, upload);
    struct fg_self_profile_push *own = push->own;
    struct fg_err err = upload->err;

    free(push);
    own->done(own, err.code, err.msg);
}

void dist_push_v1_own(struct distributor *distributor, struct fg_loop *home, struct fg_slice tenant,
                      struct fg_self_profile_push *own)
{
    static const struct dist_upload_interface interface = {.decode = decode, .respond = end_own};
    struct v1_push *push = fg_new(struct v1_push);

    push->own = own;
    push->call = (struct fg_connect_call){.protocol = FG_CONNECT, .body = fg_buf_slice(&own->body)};
    push->upload.interface = &interface;
    push->upload.distributor = distributor;
    push->upload.home = home;
    push->upload.body = push->call.body;
    push->upload.asked_tenant = tenant;
    push->upload.sender = FG_LIT("self-profiling");
    dist_upload_start(&push->upload);
}
