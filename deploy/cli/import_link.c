#include "deploy/cli/import_link.h"

#include "common/base/time.h"
#include "deploy/cli/import_answer.h"
#include "deploy/cli/push_request.h"
#include "deploy/cli/retry.h"
#include "proto/push_v1.pb-c.h"
#include "proto/querier_v1.pb-c.h"

#include <time.h>

enum {
    WORK_MAX_BYTES = 1024 * 1024 * 1024, /* of one answer, decoded */
    BODY_MAX_BYTES = 256 * 1024 * 1024,  /* of a push; servers take far less, and say so */
    FIRST_RETRIES = 1,                   /* of the first request: a wrong URL stays wrong */
};

static const int64_t TELL_EVERY_NS = 2 * FG_SECOND_NS; /* all connections wait at the same time */

#define METHOD(name) "querier.v1.QuerierService/" name

/* ---- life ---- */

void cli_import_traffic_init(struct cli_import_traffic *traffic, unsigned retries,
                             uint64_t rate_per_s)
{
    *traffic = (struct cli_import_traffic){.retries = retries, .rate_per_s = rate_per_s};
    (void)pthread_mutex_init(&traffic->lock, NULL);
}

void cli_import_traffic_done(struct cli_import_traffic *traffic)
{
    (void)pthread_mutex_destroy(&traffic->lock);
}

enum fg_code cli_import_link_open(struct cli_import_link *link, struct cli_import_traffic *traffic,
                                  const struct cli_client_config *source,
                                  const struct cli_client_config *target, struct fg_err *err)
{
    *link = (struct cli_import_link){.traffic = traffic,
                                     .points = fg_arena_create(WORK_MAX_BYTES),
                                     .arena = fg_arena_create(WORK_MAX_BYTES)};
    fg_buf_init(&link->pprof, BODY_MAX_BYTES);
    fg_buf_init(&link->body, BODY_MAX_BYTES);
    if (cli_client_create(source, &link->source, err) != FG_OK)
        return fg_wrap(err, "the source");
    if (target != NULL && cli_client_create(target, &link->target, err) != FG_OK)
        return fg_wrap(err, "the target");
    return FG_OK;
}

void cli_import_link_close(struct cli_import_link *link)
{
    cli_client_destroy(link->source);
    cli_client_destroy(link->target);
    fg_arena_destroy(link->points);
    fg_arena_destroy(link->arena);
    fg_buf_done(&link->pprof);
    fg_buf_done(&link->body);
}

/* ---- attempts ---- */

/* Sleeps in short pieces, so that another thread's end is noticed. */
static void rest(struct cli_import_traffic *traffic, int64_t until_mono_ns)
{
    while (!atomic_load(&traffic->stop)) {
        int64_t left_ns = until_mono_ns - fg_mono_ns(fg_clock_real());
        struct timespec piece = {.tv_nsec = (long)FG_MIN(left_ns, FG_SECOND_NS / 10)};

        if (left_ns <= 0)
            return;
        (void)nanosleep(&piece, NULL);
    }
}

/* Waits for the turn of a request to the source: those of all threads are evenly apart. */
static void pace(struct cli_import_traffic *traffic)
{
    int64_t now_ns = fg_mono_ns(fg_clock_real()), turn_ns = now_ns;

    (void)pthread_mutex_lock(&traffic->lock);
    traffic->requests++;
    if (traffic->rate_per_s > 0) {
        turn_ns = FG_MAX(now_ns, traffic->slot_mono_ns);
        traffic->slot_mono_ns = turn_ns + FG_SECOND_NS / (int64_t)traffic->rate_per_s;
    }
    (void)pthread_mutex_unlock(&traffic->lock);
    rest(traffic, turn_ns);
}

/* A request to either side. */
struct import_question {
    const char *side; /* for messages */
    bool of_source;
    atomic_bool *proved; /* of the side */
    enum fg_code (*send)(struct cli_import_link *link, const struct import_question *question,
                         struct cli_client_reply *ret_reply, struct fg_err *err);
    /* Fails with FG_E_DECODE if the answer makes no sense. */
    enum fg_code (*read)(struct cli_import_link *link, const struct import_question *question,
                         struct fg_slice body, struct fg_err *err);
    const char *method;
    const ProtobufCMessage *request; /* to the source */
    const char *key;                 /* of a push */
    void *result;                    /* of read() */
};

static enum fg_code check_status(const struct cli_client_reply *reply, struct fg_err *err)
{
    if (cli_client_check(reply, err) == FG_OK)
        return FG_OK;
    switch (reply->status) {
    case 401:
    case 403:
        err->code = FG_E_DENIED;
        break;
    case 404:
    case 405: /* a server of files, which takes no POST */
    case 501:
        err->code = FG_E_UNIMPLEMENTED;
        break;
    default:
        err->code = reply->status < 400              ? FG_E_UNIMPLEMENTED
                    : cli_retry_helps(reply->status) ? FG_E_ABORTED
                                                     : FG_E_INVALID;
    }
    return err->code;
}

/* An answer without a message may be right, and so may the empty page of a proxy: only its type
 * tells that it is none. */
static enum fg_code check_type(const struct cli_client *client,
                               const struct cli_client_reply *reply, struct fg_err *err)
{
    const char *type = cli_client_type(client);

    if (reply->is_proto)
        return FG_OK;
    return fg_fail(err, FG_E_DECODE, "200 with %s instead of application/proto",
                   type[0] == '\0' ? "no type" : type);
}

/* FG_E_UNAVAILABLE: no answer. FG_E_ABORTED: the side is in trouble. FG_E_UNIMPLEMENTED: this is no
 * such server. FG_E_DECODE: the answer cannot be read. All four may pass. The message does not name
 * the side. *ret_after_s: when the side wants to be asked again; 0: it does not say. */
static enum fg_code try_once(struct cli_import_link *link, const struct import_question *question,
                             uint64_t *ret_after_s, struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    enum fg_code code;

    *ret_after_s = 0;
    if (question->send(link, question, &reply, err) != FG_OK)
        return err->code;
    if (question->of_source)
        atomic_store(&link->traffic->answered, true);
    *ret_after_s = reply.retry_after_s;
    code = check_status(&reply, err);
    if (code == FG_OK)
        code = check_type(question->of_source ? link->source : link->target, &reply, err);
    if (code == FG_OK)
        code = question->read(link, question, fg_buf_slice(&reply.body), err);
    if (code == FG_OK)
        atomic_store(question->proved, true);
    if (code == FG_OK && reply.expired > 0) {
        (void)pthread_mutex_lock(&link->traffic->lock);
        link->traffic->expired += reply.expired;
        (void)pthread_mutex_unlock(&link->traffic->lock);
    }
    cli_client_reply_done(&reply);
    return code;
}

/* Says why the import waits; for one of all connections that do. */
static void tell_again(struct cli_import_traffic *traffic, const struct import_question *question,
                       unsigned attempt, unsigned retries, const struct fg_err *err)
{
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    bool tell;

    (void)pthread_mutex_lock(&traffic->lock);
    tell = traffic->told_mono_ns == 0 || now_ns - traffic->told_mono_ns >= TELL_EVERY_NS;
    if (tell)
        traffic->told_mono_ns = now_ns;
    (void)pthread_mutex_unlock(&traffic->lock);
    if (tell)
        (void)fprintf(stderr, "flamegrid import: %s: %s; trying again, %u of %u\n", question->side,
                      err->msg, attempt + 1, retries);
}

static enum fg_code fail_unreached(const struct cli_import_link *link, struct fg_err *err)
{
    const struct fg_err cause = *err;

    return fg_fail(err, FG_E_UNAVAILABLE,
                   "the source does not answer at %s (%s): check the URL behind `import pyroscope`",
                   cli_client_url(link->source), cause.msg);
}

/* FG_E_UNIMPLEMENTED: it is about the side and not about one profile. The advice comes first: the
 * words of another server may be cut. */
static enum fg_code fail_unproved(const struct cli_import_link *link,
                                  const struct import_question *question, struct fg_err *err)
{
    const struct fg_err cause = *err;
    const struct cli_client *client = question->of_source ? link->source : link->target;

    return fg_fail(err, FG_E_UNIMPLEMENTED,
                   "%s does not answer as a %s does: check %s: POST %s/%s: %s", question->side,
                   question->of_source ? "Pyroscope" : "flamegrid",
                   question->of_source ? "the URL behind `import pyroscope`" : "--url",
                   cli_client_url(client), question->method, cause.msg);
}

/* Returns true if another attempt may end otherwise. */
static bool may_pass(enum fg_code code)
{
    return code == FG_E_UNAVAILABLE || code == FG_E_ABORTED || code == FG_E_UNIMPLEMENTED ||
           code == FG_E_DECODE;
}

static enum fg_code ask_until_answered(struct cli_import_link *link,
                                       const struct import_question *question, struct fg_err *err)
{
    for (unsigned attempt = 0;; attempt++) {
        uint64_t after_s;
        enum fg_code code = try_once(link, question, &after_s, err);
        bool proved = atomic_load(question->proved);
        bool unreached = question->of_source && !atomic_load(&link->traffic->answered);
        unsigned retries = unreached ? FG_MIN(link->traffic->retries, (unsigned)FIRST_RETRIES)
                                     : link->traffic->retries;

        if (code == FG_OK)
            return FG_OK;
        if (!proved && (code == FG_E_UNIMPLEMENTED || code == FG_E_DECODE))
            return fail_unproved(link, question, err);
        if (!may_pass(code))
            return fg_wrap(err, "%s", question->side);
        if (attempt >= retries || atomic_load(&link->traffic->stop))
            return unreached ? fail_unreached(link, err) : fg_wrap(err, "%s", question->side);
        /* The first repetition comes after a second, and only longer waits need an explanation;
         * but as long as the URL may be wrong, a person waits for any sign of it. */
        if (attempt > 0 || after_s > 1 || !proved)
            tell_again(link->traffic, question, attempt, retries, err);
        rest(link->traffic, fg_mono_ns(fg_clock_real()) +
                                (int64_t)cli_retry_pause_s(after_s, attempt) * FG_SECOND_NS);
    }
}

static enum fg_code send_to_source(struct cli_import_link *link,
                                   const struct import_question *question,
                                   struct cli_client_reply *ret_reply, struct fg_err *err)
{
    pace(link->traffic);
    return cli_client_send(link->source, question->method, question->request, ret_reply, err);
}

static enum fg_code send_to_target(struct cli_import_link *link,
                                   const struct import_question *question,
                                   struct cli_client_reply *ret_reply, struct fg_err *err)
{
    return cli_client_post_once(link->target, CLI_PUSH_PATH, CLI_PUSH_TYPE, question->key,
                                fg_buf_slice(&link->body), ret_reply, err);
}

static enum fg_code
ask_source(struct cli_import_link *link, const char *method, const ProtobufCMessage *request,
           enum fg_code (*read)(struct cli_import_link *, const struct import_question *,
                                struct fg_slice, struct fg_err *),
           void *result, struct fg_err *err)
{
    const struct import_question question = {.side = "the source",
                                             .of_source = true,
                                             .proved = &link->traffic->source_proved,
                                             .send = send_to_source,
                                             .read = read,
                                             .method = method,
                                             .request = request,
                                             .result = result};

    return ask_until_answered(link, &question, err);
}

/* ---- questions ---- */

static enum fg_code read_oldest(struct cli_import_link *link,
                                const struct import_question *question, struct fg_slice body,
                                struct fg_err *err)
{
    fg_arena_reset(link->arena);
    return cli_import_read_oldest(body, link->arena, question->result, err);
}

enum fg_code cli_import_ask_oldest(struct cli_import_link *link, int64_t *ret_oldest_ms,
                                   struct fg_err *err)
{
    Types__V1__GetProfileStatsRequest request;

    types__v1__get_profile_stats_request__init(&request);
    return ask_source(link, METHOD("GetProfileStats"), &request.base, read_oldest, ret_oldest_ms,
                      err);
}

struct import_listing {
    const struct cli_import_scope *scope;
    struct fg_arena *arena;
    struct cli_import_list *list;
};

static enum fg_code read_list(struct cli_import_link *link, const struct import_question *question,
                              struct fg_slice body, struct fg_err *err)
{
    const struct import_listing *listing = question->result;
    struct fg_labels *sets;
    size_t n;

    (void)link;
    fg_arena_reset(listing->arena);
    if (cli_import_read_series(body, listing->arena, &sets, &n, err) != FG_OK)
        return err->code;
    return cli_import_list_make(sets, n, listing->scope, listing->arena, listing->list, err);
}

enum fg_code cli_import_ask_list(struct cli_import_link *link, const char *selector,
                                 const struct cli_selection_range *range,
                                 const struct cli_import_scope *scope, struct fg_arena *arena,
                                 struct cli_import_list *ret_list, struct fg_err *err)
{
    struct import_listing listing = {scope, arena, ret_list};
    char *matcher = (char *)(uintptr_t)selector; /* only packed, as all texts below */
    Querier__V1__SeriesRequest request;

    querier__v1__series_request__init(&request);
    request.matchers = &matcher;
    request.n_matchers = 1;
    request.start = range->start_ms;
    request.end = range->end_ms;
    return ask_source(link, METHOD("Series"), &request.base, read_list, &listing, err);
}

struct import_points {
    struct cli_import_point *items;
    size_t n;
};

static enum fg_code read_points(struct cli_import_link *link,
                                const struct import_question *question, struct fg_slice body,
                                struct fg_err *err)
{
    struct import_points *points = question->result;

    fg_arena_reset(link->points);
    return cli_import_read_points(body, link->points, &points->items, &points->n, err);
}

enum fg_code cli_import_ask_points(struct cli_import_link *link,
                                   const struct cli_import_subject *subject,
                                   const struct cli_selection_range *range,
                                   struct cli_import_point **ret_points, size_t *ret_n,
                                   struct fg_err *err)
{
    Querier__V1__SelectSeriesRequest request;
    struct import_points points = {0};
    enum fg_code code;

    querier__v1__select_series_request__init(&request);
    request.profile_typeid = (char *)(uintptr_t)subject->type;
    request.label_selector = (char *)(uintptr_t)subject->selector;
    request.start = range->start_ms;
    request.end = range->end_ms;
    request.step = 0.001;
    code = ask_source(link, METHOD("SelectSeries"), &request.base, read_points, &points, err);
    if (code != FG_OK)
        return code;
    *ret_points = points.items;
    *ret_n = points.n;
    return FG_OK;
}

struct import_merge {
    const struct cli_import_series *series;
    double sum;
};

static enum fg_code read_merge(struct cli_import_link *link, const struct import_question *question,
                               struct fg_slice body, struct fg_err *err)
{
    struct import_merge *merge = question->result;

    fg_arena_reset(link->arena);
    fg_buf_clear(&link->pprof);
    fg_buf_put(&link->pprof, body);
    if (link->pprof.full)
        return fg_fail(err, FG_E_LIMIT, "a profile of %zu bytes", body.len);
    return cli_import_read_profile(body, merge->series, link->arena, &merge->sum, err);
}

enum fg_code cli_import_ask_merge(struct cli_import_link *link,
                                  const struct cli_import_subject *subject,
                                  const struct cli_selection_range *range, double *ret_sum,
                                  struct fg_err *err)
{
    Querier__V1__SelectMergeProfileRequest request;
    struct import_merge merge = {.series = subject->series};
    enum fg_code code;

    querier__v1__select_merge_profile_request__init(&request);
    request.profile_typeid = (char *)(uintptr_t)subject->type;
    request.label_selector = (char *)(uintptr_t)subject->selector;
    request.start = range->start_ms;
    request.end = range->end_ms;
    code = ask_source(link, METHOD("SelectMergeProfile"), &request.base, read_merge, &merge, err);
    if (code == FG_OK)
        *ret_sum = merge.sum;
    return code;
}

/* ---- the target ---- */

/* The answer says nothing of the profile: it is enough that it is of the protocol at all. */
static enum fg_code read_pushed(struct cli_import_link *link,
                                const struct import_question *question, struct fg_slice body,
                                struct fg_err *err)
{
    Push__V1__PushResponse *response = push__v1__push_response__unpack(NULL, body.len, body.ptr);

    (void)link;
    (void)question;
    if (response == NULL)
        return fg_fail(err, FG_E_DECODE, "the answer is no push.v1.PushResponse");
    push__v1__push_response__free_unpacked(response, NULL);
    return FG_OK;
}

enum fg_code cli_import_push(struct cli_import_link *link, const struct cli_import_series *series,
                             const struct cli_import_unit *unit, struct fg_err *err)
{
    char id[CLI_IMPORT_ID_BYTES];
    const struct import_question question = {.side = "the target",
                                             .proved = &link->traffic->target_proved,
                                             .send = send_to_target,
                                             .read = read_pushed,
                                             .method = &CLI_PUSH_PATH[1], /* without its slash */
                                             .key = id};
    struct fg_buf pprof;
    enum fg_code code;

    cli_import_id(series, unit, id);
    fg_buf_init(&pprof, BODY_MAX_BYTES);
    fg_buf_clear(&link->body);
    cli_import_write_profile(fg_buf_slice(&link->pprof), unit->time_ms, &pprof);
    code = pprof.full ? fg_fail(err, FG_E_LIMIT, "a profile of %zu bytes", link->pprof.len)
                      : cli_push_request_write(&series->pushed, id, fg_buf_slice(&pprof),
                                               &link->body, err);
    fg_buf_done(&pprof);
    return code == FG_OK ? ask_until_answered(link, &question, err) : code;
}
