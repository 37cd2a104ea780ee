#include "querier/replicas/replica_read_core.h"

#include "common/base/time.h"
#include "common/net/pbjson.h"
#include "querier/query.h"

enum {
    ATTEMPTS_MAX = 8,      /* including those that failures of members cost */
    MISSING_TEXT_MAX = 160 /* bytes of what is said about one member */
};

struct qry_replica_failure {
    struct qry_replica_failure *next;
    uint32_t member;
    enum fg_code code;
    char text[MISSING_TEXT_MAX];
};

static bool has_ring(const struct qry_replica_read_core *core)
{
    return core->requests.view != NULL;
}

static struct fg_slice name_of(const struct qry_replica_read_core *core, uint32_t member)
{
    return !has_ring(core) || member == FG_RING_NO_MEMBER
               ? FG_LIT("ingester")
               : core->requests.view->ring.members[member].name;
}

/* ---- attempts ---- */

/* Drops a request. A late member counts as slow then, so that the next attempt does not wait for it
 * again. */
static void drop_request(struct qry_replica_read_core *core, struct qry_replica_request *request)
{
    if (request->state == REQUEST_LATE)
        fg_bits_set(core->requests.slow, request->member);
    core->counts[REPLICAS_DROPPED] +=
        request->state == REQUEST_SENT || request->state == REQUEST_LATE;
    request->state = REQUEST_DROPPED;
}

static enum fg_code begin_attempt(struct qry_replica_read_core *core, struct fg_err *err)
{
    struct qry_replica_request **link = &core->requests.items;

    for (; *link != NULL; link = &(*link)->next)
        if ((*link)->state != REQUEST_DROPPED)
            drop_request(core, *link);
    /* The shell still has to drop the calls of earlier attempts. */
    *link = core->past;
    core->past = core->requests.items;
    core->requests.items = NULL;
    core->state = REPLICA_READ_ASKING;
    if (core->attempts == ATTEMPTS_MAX)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "ingesters did not agree on their profiles in %d attempts", ATTEMPTS_MAX);
    core->attempts++;
    return qry_replica_requests_plan(&core->requests, err);
}

enum fg_code qry_replica_read_core_start(struct qry_replica_read_core *core, int64_t wall_ns,
                                         struct fg_err *err)
{
    /* With a ring replicas may have what one cannot read, so members are asked to be lenient only
     * when all else has failed. */
    core->lenient = core->partial && !has_ring(core);
    qry_ids_wanted_init(&core->ids, wall_ns);
    return begin_attempt(core, err);
}

/* ---- what became of requests ---- */

void qry_replica_read_core_answered(struct qry_replica_read_core *core,
                                    struct qry_replica_request *request, struct fg_slice reply)
{
    fg_assert(request->state == REQUEST_SENT || request->state == REQUEST_LATE);
    request->state = REQUEST_ANSWERED;
    request->reply = reply;
    core->news = true;
    core->counts[REPLICAS_ANSWERED]++;
    /* A failover replica is asked for only a part of what it owns, so it was not heard. */
    if (request->member != FG_RING_NO_MEMBER && request->failover_of == NULL)
        fg_ring_reads_heard(&core->requests.reads, request->member);
}

/* Returns true if other replicas would say the same, since it is about the query. */
static bool is_of_query(enum fg_code code)
{
    switch (code) {
    case FG_E_CANCELED:
    case FG_E_INVALID:
    case FG_E_NOT_FOUND:
    case FG_E_EXISTS:
    case FG_E_DENIED:
    case FG_E_TOO_LARGE:
        return true;
    default:
        return false;
    }
}

void qry_replica_read_core_failed(struct qry_replica_read_core *core,
                                  struct qry_replica_request *request, const struct fg_err *why)
{
    struct qry_replica_failure *failure;

    fg_assert(qry_replica_request_is_open(request));
    request->state = REQUEST_FAILED;
    request->err = *why;
    core->news = true;
    core->counts[REPLICAS_FAILED]++;
    if (core->refusal.code == FG_OK && is_of_query(why->code))
        core->refusal = *why;
    if (request->member != FG_RING_NO_MEMBER) {
        /* For the quorum of this attempt, and for the choice of members in the next one. */
        fg_ring_reads_failed(&core->requests.reads, request->member);
        fg_bits_set(core->requests.down, request->member);
    }
    core->too_old = core->too_old || why->code == FG_E_PRECONDITION;
    failure = fg_arena_new(core->requests.arena, struct qry_replica_failure, 1);
    if (failure == NULL) {
        /* The next step ends the read with it. */
        (void)qry_query_too_large(&core->refusal);
        return;
    }
    failure->next = core->failures;
    failure->member = request->member;
    failure->code = why->code;
    (void)snprintf(failure->text, sizeof failure->text, "%.*s", MISSING_TEXT_MAX - 1, why->msg);
    core->failures = failure;
}

/* ---- not enough ---- */

/* Returns true if the same member said the same later on: each attempt asks it again, and later
 * failures come first. */
static bool was_repeated(const struct qry_replica_read_core *core,
                         const struct qry_replica_failure *failure)
{
    for (const struct qry_replica_failure *f = core->failures; f != failure; f = f->next)
        if (f->member == failure->member && strcmp(f->text, failure->text) == 0)
            return true;
    return false;
}

/* "a: no answer; b: ..." */
static void list_failures(const struct qry_replica_read_core *core, struct fg_buf *out)
{
    for (const struct qry_replica_failure *f = core->failures; f != NULL; f = f->next)
        if (!was_repeated(core, f))
            fg_buf_printf(out, "%s%.*s: %s", out->len > 0 ? "; " : "",
                          FG_S(name_of(core, f->member)), f->text);
    for (const struct qry_replica_request *request = core->requests.items; request != NULL;
         request = request->next)
        if (request->state == REQUEST_LATE)
            fg_buf_printf(out, "%s%.*s: no response yet", out->len > 0 ? "; " : "",
                          FG_S(name_of(core, request->member)));
}

/* Returns true if a member failed with this code. */
static bool has_failed_with(const struct qry_replica_read_core *core, enum fg_code code)
{
    for (const struct qry_replica_failure *f = core->failures; f != NULL; f = f->next)
        if (f->code == code)
            return true;
    return false;
}

static enum fg_code fail(const struct qry_replica_read_core *core, struct fg_err *err)
{
    enum fg_code code = FG_E_UNAVAILABLE;
    struct fg_buf text, names;
    uint64_t revision;
    uint16_t shard;

    if (!has_ring(core)) { /* of one ingester all there is to say is its error */
        *err = core->requests.items->err;
        if (err->code != FG_E_CORRUPT)
            return err->code;
        err->code = FG_E_UNAVAILABLE; /* to take the rest is what the client can do about it */
        return core->may_be_partial ? fg_wrap(err, QRY_ADVISE_PARTIAL) : err->code;
    }
    fg_buf_init(&text, FG_ERR_MSG_MAX_BYTES);
    fg_buf_init(&names, FG_ERR_MSG_MAX_BYTES);
    if (fg_ring_reads_is_hopeless(&core->requests.reads, &shard, &revision)) {
        unsigned heard, need;

        fg_ring_reads_count(&core->requests.reads, shard, revision, &heard, &need);
        fg_buf_printf(
            &text, "shard %u of ring revision %llu: %u of %u required ingesters responded: ", shard,
            (unsigned long long)revision, heard, need);
    }
    list_failures(core, &names);
    /* What the client can do about it: come later, or ask for less. */
    for (const struct qry_replica_failure *f = core->failures;
         f != NULL && code == FG_E_UNAVAILABLE; f = f->next)
        if (f->code == FG_E_LIMIT || f->code == FG_E_DEADLINE)
            code = f->code;
    (void)fg_fail(err, code, "%.*s%.*s", FG_S(fg_buf_slice(&text)), FG_S(fg_buf_slice(&names)));
    fg_buf_done(&names);
    fg_buf_done(&text);
    return err->code;
}

static enum fg_code too_old(struct fg_err *err)
{
    return fg_fail(err, FG_E_PRECONDITION, "the cached ring or manifests are too old");
}

static enum fg_code compare(struct qry_replica_read_core *core, struct fg_err *err);

/* Nobody is left who could be asked: slow members if there are any, then the result with what there
 * is, then the failure. */
static enum fg_code take_what_there_is(struct qry_replica_read_core *core, struct fg_err *err)
{
    struct fg_buf text;
    uint64_t slow = 0;

    for (unsigned i = 0; i < FG_RING_READS_WORDS; i++)
        slow |= core->requests.slow[i];
    if (has_ring(core) && !core->requests.needs_slow && slow != 0) {
        core->requests.needs_slow = true;
        return begin_attempt(core, err);
    }
    /* A fresher snapshot may make those members answer, which is better than an incomplete
     * response. */
    if (core->too_old && !core->last_try && has_ring(core))
        return too_old(err);
    if (!core->partial) {
        core->counts[REPLICAS_REFUSED]++;
        return fail(core, err);
    }
    /* A member that cannot read some profiles may give the others. */
    if (has_ring(core) && !core->lenient && has_failed_with(core, FG_E_CORRUPT)) {
        core->lenient = true;
        /* Members that failed may give what they can read, so none is excluded any more. */
        memset(core->requests.down, 0, sizeof core->requests.down);
        return begin_attempt(core, err);
    }
    fg_buf_init(&text, FG_ERR_MSG_MAX_BYTES);
    list_failures(core, &text);
    core->lacks = fg_arena_copy(core->requests.arena, fg_buf_slice(&text));
    fg_buf_done(&text);
    if (core->lacks.ptr == NULL)
        return qry_query_too_large(err);
    core->counts[REPLICAS_INCOMPLETE]++;
    return compare(core, err);
}

/* ---- comparing ---- */

static const ProtobufCMessageDescriptor *descriptor_of(enum fg_rpc_method method)
{
    switch (method) {
    case FG_RPC_SELECT:
        return &fg__inner__select_reply__descriptor;
    case FG_RPC_POINTS:
        return &fg__inner__points_reply__descriptor;
    case FG_RPC_ROWS:
        return &fg__inner__rows_reply__descriptor;
    default:
        fg_assert(method == FG_RPC_STATS);
        return &fg__inner__stats_reply__descriptor;
    }
}

/* Decodes the head of an answer. */
static enum fg_code read_reply(const struct qry_replica_read_core *core,
                               const struct qry_replica_request *request,
                               ProtobufCMessage **ret_message, struct fg_err *err)
{
    if (fg_pb_read(request->reply, descriptor_of(core->requests.method), core->requests.arena,
                   ret_message, err) != FG_OK)
        return fg_wrap(err, "response of ingester %.*s", FG_S(name_of(core, request->member)));
    return FG_OK;
}

static enum fg_code read_answer(const struct qry_replica_read_core *core,
                                const struct qry_replica_request *request,
                                struct qry_replica_compare_answer *ret_answer, struct fg_err *err)
{
    Fg__Inner__GroupSum *const *sums;
    ProtobufCMessage *message;
    size_t n;

    if (read_reply(core, request, &message, err) != FG_OK)
        return err->code;
    if (core->requests.method == FG_RPC_SELECT) {
        sums = ((const Fg__Inner__SelectReply *)message)->sums;
        n = ((const Fg__Inner__SelectReply *)message)->n_sums;
    } else if (core->requests.method == FG_RPC_POINTS) {
        sums = ((const Fg__Inner__PointsReply *)message)->sums;
        n = ((const Fg__Inner__PointsReply *)message)->n_sums;
    } else if (core->requests.method == FG_RPC_ROWS) {
        sums = ((const Fg__Inner__RowsReply *)message)->sums;
        n = ((const Fg__Inner__RowsReply *)message)->n_sums;
    } else {
        sums = ((const Fg__Inner__StatsReply *)message)->sums;
        n = ((const Fg__Inner__StatsReply *)message)->n_sums;
    }
    if (qry_replica_compare_read(sums, n, &request->sums, core->requests.arena, ret_answer, err) !=
        FG_OK)
        return fg_wrap(err, "response of ingester %.*s", FG_S(name_of(core, request->member)));
    if (qry_replica_request_counts(request))
        ret_answer->data = request->data;
    return FG_OK;
}

/* Those who answered, and what. */
struct answers {
    struct qry_replica_request **requests;
    struct qry_replica_compare_answer *items;
    uint32_t n;
};

static enum fg_code read_answers(const struct qry_replica_read_core *core, struct answers *answers,
                                 struct fg_err *err)
{
    struct fg_arena *arena = core->requests.arena;
    uint32_t n = 0;

    for (struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next)
        n += r->state == REQUEST_ANSWERED && r->n_ids == 0;
    answers->requests = fg_arena_new(arena, struct qry_replica_request *, n);
    answers->items = fg_arena_new(arena, struct qry_replica_compare_answer, n);
    answers->n = 0;
    if (answers->requests == NULL || answers->items == NULL)
        return qry_query_too_large(err);
    for (struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next)
        if (r->state == REQUEST_ANSWERED && r->n_ids == 0) {
            answers->requests[answers->n] = r;
            if (read_answer(core, r, &answers->items[answers->n++], err) != FG_OK)
                return err->code;
        }
    return FG_OK;
}

/* Exactly once: no shard's data counts of two answers. It costs a look at each byte of the maps,
 * once for an attempt. */
static void check_once(const struct answers *answers)
{
    for (uint32_t i = 0; i < answers->n; i++)
        for (uint32_t k = i + 1; k < answers->n; k++) {
            struct fg_slice a = answers->items[i].data.bits, b = answers->items[k].data.bits;

            for (size_t at = 0; at < FG_MIN(a.len, b.len); at++)
                fg_assert((a.ptr[at] & b.ptr[at]) == 0);
        }
}

static enum fg_code compare(struct qry_replica_read_core *core, struct fg_err *err)
{
    struct qry_replica_compare_result result;
    struct answers answers;

    /* What comes from now on is compared with nothing, so it is not wanted. Its member was slower
     * than all others, so another attempt had better do without it. */
    for (struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        if (!qry_replica_request_is_open(r))
            continue;
        if (r->state != REQUEST_PLANNED && has_ring(core))
            fg_bits_set(core->requests.slow, r->member);
        drop_request(core, r);
    }
    core->state = REPLICA_READ_DONE;
    /* One ingester, or replies that unite: there is nothing to compare. */
    if (!has_ring(core) || qry_replica_requests_unite(core->requests.method))
        return FG_OK;
    if (read_answers(core, &answers, err) != FG_OK)
        return err->code;
    /* Before anything is added up: a shard that counts twice would double its profiles in silence.
     */
    check_once(&answers);
    if (qry_replica_compare_answers(answers.items, answers.n, core->requests.arena, &result, err) !=
        FG_OK)
        return err->code;
    /* Everything again, with the ids of these groups: ids that were fetched for older data would
     * not fit, since data, sums and ids have to be of one moment. */
    if (result.n_differ > 0) {
        core->counts[REPLICAS_DIFFERENT]++;
        return qry_ids_wanted_add(&core->ids, &result, core->requests.arena, err) == FG_OK
                   ? begin_attempt(core, err)
                   : err->code;
    }
    core->counts[result.n_missing == 0 ? REPLICAS_EQUAL : REPLICAS_MISSING]++;
    if (result.n_missing == 0)
        return FG_OK;
    core->state = REPLICA_READ_FETCHING;
    return qry_replica_requests_fetch(&core->requests, answers.requests, &result, err);
}

/* ---- steps ---- */

static bool may_be_late(const struct qry_replica_read_core *core)
{
    return has_ring(core) && (core->state == REPLICA_READ_ASKING || !core->patient);
}

static int64_t late_mono_ns(const struct qry_replica_read_core *core,
                            const struct qry_replica_request *request)
{
    return fg_time_add(request->sent_mono_ns, core->hedge_after_ns);
}

/* Returns true if some are late that were not. */
static bool find_late(struct qry_replica_read_core *core, int64_t now_mono_ns)
{
    bool found = false;

    for (struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next)
        if (r->state == REQUEST_SENT && may_be_late(core) && now_mono_ns >= late_mono_ns(core, r)) {
            r->state = REQUEST_LATE;
            core->counts[REPLICAS_LATE]++;
            /* So that the quorum looks for others; if it answers after all, it is heard again. */
            fg_ring_reads_failed(&core->requests.reads, r->member);
            found = true;
        }
    return found;
}

static bool is_waiting(const struct qry_replica_read_core *core, int64_t now_mono_ns)
{
    for (const struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next)
        if (qry_replica_request_is_open(r) &&
            (r->state != REQUEST_LATE || now_mono_ns < core->give_up_late_mono_ns))
            return true;
    return false;
}

static enum fg_code step_asking(struct qry_replica_read_core *core, int64_t now_mono_ns,
                                bool *moved, struct fg_err *err)
{
    uint64_t revision;
    uint16_t shard;

    /* Before the check for enough: failover replicas are asked as soon as a member fails, not when
     * nothing else is left. */
    if (*moved && has_ring(core)) {
        unsigned replaced = 0;

        if (qry_replica_requests_fail_over(&core->requests, &replaced, err) != FG_OK)
            return err->code;
        core->counts[REPLICAS_REPLACED] += replaced;
    }
    if ((*moved || core->requests.items == NULL) &&
        qry_replica_requests_are_enough(&core->requests)) {
        *moved = true;
        return compare(core, err);
    }
    /* Members that refuse this ring or snapshot as too old will answer with fresher ones. Late
     * members are not waited for if the others cannot be enough without them. */
    if (core->too_old && !core->last_try && has_ring(core) &&
        fg_ring_reads_is_hopeless(&core->requests.reads, &shard, &revision))
        return too_old(err);
    if (is_waiting(core, now_mono_ns))
        return FG_OK;
    *moved = true;
    return take_what_there_is(core, err);
}

/* The member had these profiles a moment ago, so it has to give all of them. */
static enum fg_code check_fetched(const struct qry_replica_read_core *core,
                                  const struct qry_replica_request *request, struct fg_err *err)
{
    const Fg__Inner__Stats *stats;
    ProtobufCMessage *message;

    if (read_reply(core, request, &message, err) != FG_OK)
        return err->code;
    stats = core->requests.method == FG_RPC_SELECT ? ((Fg__Inner__SelectReply *)message)->stats
                                                   : ((Fg__Inner__PointsReply *)message)->stats;
    if (stats == NULL || stats->profiles != request->n_ids)
        return fg_fail(err, FG_E_CORRUPT, "ingester %.*s returned %llu of its %llu profiles",
                       FG_S(name_of(core, request->member)),
                       (unsigned long long)(stats == NULL ? 0 : stats->profiles),
                       (unsigned long long)request->n_ids);
    return FG_OK;
}

static enum fg_code step_fetching(struct qry_replica_read_core *core, bool *moved,
                                  struct fg_err *err)
{
    bool again = false; /* without members that failed or, once only, that are late */

    for (const struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        if (r->n_ids == 0)
            continue;
        if (r->state == REQUEST_PLANNED || r->state == REQUEST_SENT)
            return FG_OK;
        again = again || r->state != REQUEST_ANSWERED;
        /* The next attempt avoids the late member. If it has to fetch again, it waits: with a
         * second slow member attempts would not end. */
        core->patient = core->patient || r->state == REQUEST_LATE;
    }
    *moved = true;
    if (again)
        return begin_attempt(core, err);
    for (const struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        if (r->n_ids > 0 && check_fetched(core, r, err) != FG_OK)
            return err->code;
        core->counts[REPLICAS_FETCHED] += r->n_ids;
    }
    core->state = REPLICA_READ_DONE;
    return FG_OK;
}

/* After each step that did not fail. O(requests of the attempt). */
static void reading_check(const struct qry_replica_read_core *core)
{
    unsigned n = 0, n_fetches = 0;

    for (const struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        n++;
        n_fetches += r->n_ids > 0;
        fg_assert(core->state != REPLICA_READ_DONE || !qry_replica_request_is_open(r));
        fg_assert((r->n_ids > 0) == (r->ids.len > 0));
        fg_assert(r->n_ids == 0 || (r->failover_of == NULL && !r->failed_over));
        fg_assert(r->failover_of == NULL || r->failover_of->failed_over);
        fg_assert((r->member == FG_RING_NO_MEMBER) == !has_ring(core));
    }
    fg_assert(core->attempts >= 1 && core->attempts <= ATTEMPTS_MAX);
    fg_assert(has_ring(core) || n <= 1);
    fg_assert(core->state != REPLICA_READ_FETCHING || n_fetches > 0);
    fg_assert(core->state != REPLICA_READ_ASKING || n_fetches == 0);
}

enum fg_code qry_replica_read_core_step(struct qry_replica_read_core *core, int64_t now_mono_ns,
                                        bool *ret_moved, struct fg_err *err)
{
    enum fg_code code = FG_OK;
    bool moved = core->news;

    core->news = false;
    if (core->refusal.code != FG_OK) {
        *err = core->refusal;
        return err->code;
    }
    if (core->state != REPLICA_READ_DONE && find_late(core, now_mono_ns))
        moved = true;
    switch (core->state) {
    case REPLICA_READ_ASKING:
        code = step_asking(core, now_mono_ns, &moved, err);
        break;
    case REPLICA_READ_FETCHING:
        code = step_fetching(core, &moved, err);
        break;
    case REPLICA_READ_DONE:
        moved = false;
        break;
    }
    if (code != FG_OK)
        return code;
    reading_check(core);
    *ret_moved = moved;
    return FG_OK;
}

int64_t qry_replica_read_core_wake_mono_ns(const struct qry_replica_read_core *core)
{
    int64_t wake_ns = INT64_MAX;

    if (core->state == REPLICA_READ_DONE)
        return INT64_MAX;
    for (const struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        if (r->state == REQUEST_SENT && may_be_late(core))
            wake_ns = FG_MIN(wake_ns, late_mono_ns(core, r));
        if (r->state == REQUEST_LATE)
            wake_ns = FG_MIN(wake_ns, core->give_up_late_mono_ns);
    }
    return wake_ns;
}

/* ---- the result ---- */

bool qry_replica_read_core_is_part(const struct qry_replica_read_core *core,
                                   const struct qry_replica_request *request)
{
    fg_assert(core->state == REPLICA_READ_DONE);
    if (request->state != REQUEST_ANSWERED)
        return false;
    if (!has_ring(core) || core->requests.method == FG_RPC_SERIES || request->n_ids > 0)
        return true;
    return request->data.bits.len > 0 && qry_replica_request_counts(request);
}

enum fg_code qry_replica_read_core_stats(const struct qry_replica_read_core *core,
                                         Fg__Inner__StatsReply *ret_joined, struct fg_err *err)
{
    Fg__Inner__StatsReply joined;
    struct answers answers;
    bool any = false;

    fg__inner__stats_reply__init(&joined);
    fg_assert(core->state == REPLICA_READ_DONE && has_ring(core));
    if (read_answers(core, &answers, err) != FG_OK ||
        qry_replica_compare_greatest(answers.items, answers.n, core->requests.arena,
                                     &joined.profiles, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < answers.n; i++) {
        ProtobufCMessage *message;

        if (read_reply(core, answers.requests[i], &message, err) != FG_OK)
            return err->code;
        const Fg__Inner__StatsReply *reply = (Fg__Inner__StatsReply *)message;
        /* Another replica may have counted what this one lacks, but nobody knows. */
        if (reply->lacks[0] != '\0')
            joined.lacks = reply->lacks;
        if (reply->profiles == 0)
            continue;
        joined.oldest_ns = any ? FG_MIN(joined.oldest_ns, reply->oldest_ns) : reply->oldest_ns;
        joined.newest_ns = any ? FG_MAX(joined.newest_ns, reply->newest_ns) : reply->newest_ns;
        any = true;
    }
    *ret_joined = joined;
    return FG_OK;
}
