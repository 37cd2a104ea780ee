/*
 * An upload:
 *
 *   loop            worker                        ingester            loop
 *   READ   ----->   DECODE ---- batch -------->   durable   ----->    ANSWER
 *                     |  ^                           |
 *                     |  '---- DECODE again <--------' lacks definitions
 *                     '------- nothing to store, or refused ------->  ANSWER
 *
 * Nothing of the decoded form outlives the worker: what is kept while the ingester works is the
 * request itself, whose bytes are counted already. So an upload whose definitions were lacking is
 * decoded once more, which happens when a service is new to the ingester and hardly ever after.
 */
#include "distributor/upload.h"

#include "common/run/log.h"
#include "proto/inner.pb-c.h"

enum { UPLOAD_MAGIC = 0x75706c64, ATTEMPTS_MAX = 4 };

struct upload {
    unsigned magic;
    struct distributor *distributor;
    struct fg_http_request *req;
    struct ingest_request request;
    struct fg_job job;
    struct fg_call call;
    struct fg_msg answer; /* back to the loop */
    struct fg_err err;    /* code FG_OK: all is well */

    unsigned attempt;
    uint32_t *undefined; /* stacks that the ingester lacks; asked for by the last answer */
    size_t n_undefined;
    struct fg_id *defined; /* stacks that the last attempt defined */
    uint32_t n_defined;
    uint64_t service_hash;
};

/* The one tenant of a server without tenancy. */
static struct fg_slice tenant_of(const struct upload *upload)
{
    (void)upload;
    return FG_LIT("anonymous");
}

/* ---- memory of decoders ---- */

static struct workspace *workspace_take(struct distributor *distributor)
{
    struct workspace *space;

    (void)pthread_mutex_lock(&distributor->lock);
    space = distributor->workspaces;
    if (space != NULL)
        distributor->workspaces = space->next;
    (void)pthread_mutex_unlock(&distributor->lock);
    if (space == NULL) {
        space = fg_new(struct workspace);
        space->arena = fg_arena_create(distributor->config.settings->decode_max_bytes);
        fg_buf_init(&space->inflated, SIZE_MAX);
        fg_buf_init(&space->wire, FG_RPC_MESSAGE_MAX_BYTES / 2);
    }
    return space;
}

/* One giant must not keep its memory for ever in every workspace. */
static void shrink(struct fg_buf *buf)
{
    enum { KEEP_MAX_BYTES = 1024 * 1024 };

    if (buf->cap > KEEP_MAX_BYTES)
        fg_buf_done(buf);
    fg_buf_clear(buf);
}

static void workspace_give(struct distributor *distributor, struct workspace *space)
{
    fg_arena_reset(space->arena);
    shrink(&space->inflated);
    shrink(&space->wire);
    (void)pthread_mutex_lock(&distributor->lock);
    space->next = distributor->workspaces;
    distributor->workspaces = space;
    (void)pthread_mutex_unlock(&distributor->lock);
}

/* ---- answer (loop) ---- */

static void count_refusal(struct distributor *distributor, enum fg_code code)
{
    unsigned metric = DIST_REFUSED_INVALID;

    if (code == FG_E_LIMIT)
        metric = DIST_REFUSED_BUSY;
    else if (fg_code_http(code) >= 500)
        metric = DIST_REFUSED_OTHER;
    fg_metric_add(distributor->metrics, metric, 1);
}

static void answer(struct upload *upload)
{
    struct fg_http_request *req = upload->req;
    struct fg_err err = upload->err;

    free(upload->undefined);
    free(upload->defined);
    upload->magic = 0;
    if (err.code == FG_OK) {
        fg_http_respond(req, 200, NULL, NULL);
        return;
    }
    count_refusal(upload->distributor, err.code);
    fg_http_add_header(req, "X-Content-Type-Options", "nosniff");
    fg_http_respond_error(req, &err);
}

static void on_answer(struct fg_msg *msg)
{
    answer(fg_container(msg, struct upload, answer));
}

static void decode_again(struct upload *upload);

/* Takes over which stacks are lacking. */
static void keep_undefined(struct upload *upload, const Fg__Inner__PushReply *reply)
{
    free(upload->undefined);
    upload->undefined = fg_calloc(reply->n_undefined, sizeof *upload->undefined);
    memcpy(upload->undefined, reply->undefined, reply->n_undefined * sizeof *upload->undefined);
    upload->n_undefined = reply->n_undefined;
}

static void read_reply(struct upload *upload)
{
    struct fg_slice bytes = upload->call.reply_head;
    Fg__Inner__PushReply *reply = fg__inner__push_reply__unpack(NULL, bytes.len, bytes.ptr);
    struct distributor *distributor = upload->distributor;

    if (reply == NULL) {
        (void)fg_fail(&upload->err, FG_E_INTERNAL, "ingester's answer cannot be read");
        return;
    }
    upload->n_undefined = 0;
    if (reply->n_undefined > 0) {
        keep_undefined(upload, reply);
        fg_metric_add(distributor->metrics, DIST_REDEFINED, 1);
    } else {
        if (upload->n_defined > 0)
            known_add(distributor->known, upload->service_hash, reply->start_id, upload->defined,
                      upload->n_defined);
        fg_metric_add(distributor->metrics, DIST_PROFILES, reply->stored + reply->duplicates);
        fg_metric_add(distributor->metrics, DIST_DUPLICATES, reply->duplicates);
    }
    fg__inner__push_reply__free_unpacked(reply, NULL);
}

static void on_reply(struct fg_call *call)
{
    struct upload *upload = fg_container(call, struct upload, call);

    fg_assert(upload->magic == UPLOAD_MAGIC);
    upload->n_undefined = 0;
    if (call->code == FG_OK)
        read_reply(upload);
    else
        upload->err = call->err;
    fg_call_done(upload->distributor->config.ingester, call);
    if (upload->err.code == FG_OK && upload->n_undefined > 0)
        decode_again(upload);
    else
        answer(upload);
}

/* ---- decode (worker) ---- */

static void choose_definitions(struct upload *upload, const struct fg_batch *batch, bool *define)
{
    known_look_up(upload->distributor->known, upload->service_hash, batch, define);
    for (size_t i = 0; i < upload->n_undefined; i++)
        if (upload->undefined[i] < batch->n_stacks)
            define[upload->undefined[i]] = true;
    /* Something keeps going wrong: send all there is. */
    if (upload->attempt > 2)
        memset(define, true, batch->n_stacks);
}

static void keep_defined(struct upload *upload, const struct fg_batch *batch, const bool *define)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < batch->n_stacks; i++)
        n += define[i];
    free(upload->defined);
    upload->defined = fg_calloc(n, sizeof *upload->defined);
    upload->n_defined = 0;
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        if (define[i])
            upload->defined[upload->n_defined++] = batch->stacks[i].id;
}

/* The service of a batch is that of its first profile: they share the upload's labels. */
static enum fg_code encode(struct upload *upload, const struct fg_batch *batch,
                           struct workspace *space, struct fg_err *err)
{
    struct fg_slice service = fg_labels_get(&batch->profiles[0].labels, FG_LABEL_SERVICE);
    bool *define = fg_arena_alloc(space->arena, batch->n_stacks * sizeof *define);

    if (define == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "upload needs more memory than decoding may use");
    upload->service_hash = known_service(tenant_of(upload), service);
    choose_definitions(upload, batch, define);
    keep_defined(upload, batch, define);
    fg_buf_clear(&space->wire);
    fg_batch_encode(batch, define, &space->wire);
    if (space->wire.full)
        return fg_fail(err, FG_E_TOO_LARGE, "upload is larger than one message may be");
    return FG_OK;
}

static enum fg_code send_batch(struct upload *upload, const struct fg_batch *batch,
                               struct workspace *space, struct fg_err *err)
{
    const struct distributor_config *config = &upload->distributor->config;
    Fg__Inner__PushHead head;
    struct fg_slice service = fg_labels_get(&batch->profiles[0].labels, FG_LABEL_SERVICE);
    uint8_t *bytes;

    fg__inner__push_head__init(&head);
    head.tenant = fg_arena_text(space->arena, tenant_of(upload));
    head.service = fg_arena_text(space->arena, service);
    bytes = head.tenant == NULL || head.service == NULL
                ? NULL
                : fg_arena_alloc(space->arena, fg__inner__push_head__get_packed_size(&head));
    if (bytes == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "upload needs more memory than decoding may use");
    upload->call = (struct fg_call){
        .method = FG_RPC_PUSH,
        .head = fg_bytes(bytes, fg__inner__push_head__pack(&head, bytes)),
        .payload = fg_buf_slice(&space->wire),
        .deadline_mono_ns = fg_mono_ns(config->clock) + config->settings->push_timeout_ns,
        .home = fg_http_loop(upload->req),
        .done = on_reply,
    };
    fg_peer_send(config->ingester, &upload->call); /* from here on the loop may have answered */
    return FG_OK;
}

static void count_cuts(struct distributor *distributor, const struct ingest_counts *counts)
{
    fg_metric_add(distributor->metrics, DIST_INFLATED, counts->inflated_bytes);
    if (counts->decode.stacks_cut > 0)
        fg_metric_add(distributor->metrics, DIST_STACKS_CUT, counts->decode.stacks_cut);
    if (counts->decode.symbols_cut > 0)
        fg_metric_add(distributor->metrics, DIST_SYMBOLS_CUT, counts->decode.symbols_cut);
    if (counts->decode.samples_dropped > 0)
        fg_metric_add(distributor->metrics, DIST_SAMPLES_DROPPED, counts->decode.samples_dropped);
}

/* *ret_sent: the batch is on its way, and the upload is the loop's; it must not be touched any
 * more. */
static enum fg_code decode_and_send(struct upload *upload, struct workspace *space, bool *ret_sent,
                                    struct fg_err *err)
{
    struct distributor *distributor = upload->distributor;
    struct ingest_counts counts = {0};
    struct fg_batch batch;
    int64_t start = fg_mono_ns(distributor->config.clock);

    if (ingest_decode(&upload->request, &distributor->limits, tenant_of(upload), space->arena,
                      &space->inflated, &batch, &counts, err) != FG_OK)
        return err->code;
    if (upload->attempt == 1)
        count_cuts(distributor, &counts);
    if (batch.n_profiles == 0)
        return FG_OK;
    if (encode(upload, &batch, space, err) != FG_OK)
        return err->code;
    fg_metric_observe_ns(distributor->metrics, DIST_DECODE_SECONDS,
                         fg_mono_ns(distributor->config.clock) - start);
    *ret_sent = true;
    return send_batch(upload, &batch, space, err);
}

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    (void)job;
    (void)err;
    return FG_OK; /* all is in done(): see there */
}

/*
 * Sending passes the upload on to the loop, which may answer and free it at once. A job must live
 * until its done() was called; so decoding happens there, on the worker, as the last thing done
 * with the job.
 */
static void on_worker(struct fg_job *job)
{
    struct upload *upload = fg_container(job, struct upload, job);
    struct distributor *distributor = upload->distributor;
    struct workspace *space = workspace_take(distributor);
    struct fg_err err = {.code = FG_OK};
    bool sent = false;

    upload->attempt++;
    if (decode_and_send(upload, space, &sent, &err) != FG_OK || !sent) {
        upload->err = err;
        upload->answer.run = on_answer;
        fg_loop_post(fg_http_loop(upload->req), &upload->answer);
    }
    workspace_give(distributor, space);
}

/* ---- read (loop) ---- */

static void start(struct upload *upload)
{
    upload->job.run = run;
    upload->job.done = on_worker;
    if (fg_work_submit(upload->distributor->config.work, FG_LANE_INGEST, &upload->job))
        return;
    (void)fg_fail(&upload->err, FG_E_LIMIT, "too many uploads at a time, try again");
    answer(upload);
}

static void decode_again(struct upload *upload)
{
    if (upload->attempt >= ATTEMPTS_MAX) {
        (void)fg_fail(&upload->err, FG_E_UNAVAILABLE, "ingester keeps asking for definitions");
        answer(upload);
        return;
    }
    start(upload);
}

void upload_handle(struct fg_http_request *req, void *arg)
{
    struct distributor *distributor = arg;
    struct upload *upload = fg_arena_new(fg_http_arena(req), struct upload, 1);

    fg_assert(upload != NULL); /* the first thing in an arena of a MiB */
    upload->magic = UPLOAD_MAGIC;
    upload->distributor = distributor;
    upload->req = req;
    upload->err.code = FG_OK;
    upload->request = (struct ingest_request){
        .name = fg_http_param(req, "name"),
        .from = fg_http_param(req, "from"),
        .until = fg_http_param(req, "until"),
        .sample_rate = fg_http_param(req, "sampleRate"),
        .spy_name = fg_http_param(req, "spyName"),
        .format = fg_http_param(req, "format"),
        .content_type = fg_http_header(req, "Content-Type"),
        .idempotency_key = fg_http_header(req, "Idempotency-Key"),
        .sender = fg_http_peer(req),
        .body = fg_http_body(req),
        .now_ns = fg_wall_ns(distributor->config.clock),
    };
    fg_metric_add(distributor->metrics, DIST_UPLOADS, 1);
    fg_metric_add(distributor->metrics, DIST_BYTES, upload->request.body.len);
    start(upload);
}
