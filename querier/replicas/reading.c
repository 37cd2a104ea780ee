#include "common/net/pbjson.h"
#include "querier/replicas/legs.h"
#include "querier/replicas/metrics.h"

enum {
    ATTEMPTS_MAX = 8,      /* with those that failures of members cost */
    MISSING_TEXT_MAX = 160 /* bytes of what is said about one member */
};

struct qry_reading_failure {
    struct qry_reading_failure *next;
    uint32_t member;
    enum fg_code code;
    char text[MISSING_TEXT_MAX];
};

static int64_t now_mono_ns(void)
{
    return fg_mono_ns(fg_clock_real());
}

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the query needs more memory than a query may use");
}

static void count(const struct qry_reading *reading, enum replicas_metric metric, uint64_t by)
{
    fg_metric_add(reading->question->querier->replicas_metrics, metric, by);
}

/* ---- attempts ---- */

/* What is under way is of no use any more. Who is late is not asked again at once. */
static void drop_legs(struct qry_reading *reading)
{
    for (struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next) {
        if (leg->state == LEG_LATE)
            fg_bits_set(reading->slow, leg->member);
        count(reading, REPLICAS_DROPPED, leg->state == LEG_UNDER_WAY || leg->state == LEG_LATE);
        if (leg->call != NULL)
            qry_calls_drop(leg->call);
    }
    reading->legs = NULL;
}

static enum fg_code begin_attempt(struct qry_reading *reading, struct fg_err *err)
{
    drop_legs(reading);
    reading->state = READING_ASKING;
    if (++reading->attempts > ATTEMPTS_MAX)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "ingesters did not agree on their profiles in %d attempts", ATTEMPTS_MAX);
    return qry_legs_ask(reading, err);
}

enum fg_code qry_reading_start(struct qry_reading *reading, struct fg_err *err)
{
    reading->begun_mono_ns = now_mono_ns();
    reading->lenient = reading->question->partial && reading->question->ring == NULL;
    qry_ids_wanted_init(&reading->ids, fg_wall_ns(reading->question->querier->clock));
    if (qry_heads_tenant(reading->question, reading->tenant, reading->head, &reading->about, err) !=
        FG_OK)
        return err->code;
    return begin_attempt(reading, err);
}

/* ---- failures of members ---- */

static struct fg_slice name_of(const struct qry_reading *reading, uint32_t member)
{
    return reading->question->ring == NULL || member == FG_RING_NO_MEMBER
               ? FG_LIT("ingester")
               : reading->question->ring->ring.members[member].name;
}

/* Would other replicas say the same? Then it is about the question. */
static bool is_of_question(enum fg_code code)
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

static enum fg_code remember_failure(struct qry_reading *reading, const struct qry_reading_leg *leg,
                                     struct fg_err *err)
{
    struct qry_reading_failure *failure =
        fg_arena_new(reading->arena, struct qry_reading_failure, 1);

    if (failure == NULL)
        return too_large(err);
    failure->next = reading->failures;
    failure->member = leg->member;
    failure->code = leg->err.code;
    (void)snprintf(failure->text, sizeof failure->text, "%.*s", MISSING_TEXT_MAX - 1, leg->err.msg);
    reading->failures = failure;
    return FG_OK;
}

static enum fg_code take_failure(struct qry_reading *reading, struct qry_reading_leg *leg,
                                 struct fg_err *err)
{
    leg->state = LEG_FAILED;
    count(reading, REPLICAS_FAILED, 1);
    if (leg->call != NULL)
        leg->err = leg->call->call.err;
    if (is_of_question(leg->err.code)) {
        *err = leg->err;
        return err->code;
    }
    if (leg->member != FG_RING_NO_MEMBER) {
        fg_ring_reads_failed(&reading->reads, leg->member);
        fg_bits_set(reading->down, leg->member);
    }
    reading->too_old = reading->too_old || leg->err.code == FG_E_PRECONDITION;
    return remember_failure(reading, leg, err);
}

/* ---- not enough ---- */

/* Did the same member say the same later on? Each attempt asks it again, and these come first. */
static bool was_repeated(const struct qry_reading *reading,
                         const struct qry_reading_failure *failure)
{
    for (const struct qry_reading_failure *f = reading->failures; f != failure; f = f->next)
        if (f->member == failure->member && strcmp(f->text, failure->text) == 0)
            return true;
    return false;
}

/* "a: no answer; b: ..." */
static void list_failures(const struct qry_reading *reading, struct fg_buf *out)
{
    for (const struct qry_reading_failure *f = reading->failures; f != NULL; f = f->next)
        if (!was_repeated(reading, f))
            fg_buf_printf(out, "%s%.*s: %s", out->len > 0 ? "; " : "",
                          FG_S(name_of(reading, f->member)), f->text);
    for (const struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next)
        if (leg->state == LEG_LATE)
            fg_buf_printf(out, "%s%.*s: no response yet", out->len > 0 ? "; " : "",
                          FG_S(name_of(reading, leg->member)));
}

/* What the clients may do about it: come later, or ask for less. */
static enum fg_code code_of(const struct qry_reading *reading)
{
    for (const struct qry_reading_failure *f = reading->failures; f != NULL; f = f->next)
        if (f->code == FG_E_LIMIT || f->code == FG_E_DEADLINE)
            return f->code;
    return FG_E_UNAVAILABLE;
}

static void describe(const struct qry_reading *reading, struct fg_buf *out)
{
    unsigned heard, need;
    uint64_t revision;
    uint16_t shard;

    if (reading->question->ring != NULL &&
        fg_ring_reads_is_hopeless(&reading->reads, &shard, &revision)) {
        fg_ring_reads_count(&reading->reads, shard, revision, &heard, &need);
        fg_buf_printf(
            out, "shard %u of ring revision %llu: %u of %u required ingesters responded: ", shard,
            (unsigned long long)revision, heard, need);
    }
}

static void say_missing(struct qry_reading *reading)
{
    struct fg_buf text;

    fg_buf_init(&text, FG_ERR_MSG_MAX_BYTES);
    list_failures(reading, &text);
    qry_question_lacks(reading->question, fg_buf_slice(&text));
    fg_buf_done(&text);
    count(reading, REPLICAS_INCOMPLETE, 1);
}

/* Has a member profiles that it cannot read? */
static bool is_damaged(const struct qry_reading *reading)
{
    for (const struct qry_reading_failure *f = reading->failures; f != NULL; f = f->next)
        if (f->code == FG_E_CORRUPT)
            return true;
    return false;
}

static enum fg_code fail(const struct qry_reading *reading, struct fg_err *err)
{
    struct fg_buf text, names;

    if (reading->question->ring == NULL) { /* of one ingester all there is to say is its error */
        *err = reading->legs->err;
        if (err->code != FG_E_CORRUPT)
            return err->code;
        err->code = FG_E_UNAVAILABLE; /* to take the rest is what the client can do about it */
        return fg_wrap(err, "set partial=true to get a response without the unreadable data");
    }
    fg_buf_init(&text, FG_ERR_MSG_MAX_BYTES);
    fg_buf_init(&names, FG_ERR_MSG_MAX_BYTES);
    describe(reading, &text);
    list_failures(reading, &names);
    (void)fg_fail(err, code_of(reading), "%.*s%.*s", FG_S(fg_buf_slice(&text)),
                  FG_S(fg_buf_slice(&names)));
    fg_buf_done(&names);
    fg_buf_done(&text);
    return err->code;
}

static bool is_any(const uint64_t *bits)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < FG_RING_READS_WORDS; i++)
        all |= bits[i];
    return all != 0;
}

static enum fg_code compare(struct qry_reading *reading, struct fg_err *err);

/*
 * Members that refuse this ring or snapshot as too old will answer with fresher ones: nobody waits
 * for those that are late, if the others cannot be enough without them.
 */
static bool is_hopeless_until_fresher(const struct qry_reading *reading)
{
    uint64_t revision;
    uint16_t shard;

    return reading->too_old && !reading->last_try && reading->question->ring != NULL &&
           fg_ring_reads_is_hopeless(&reading->reads, &shard, &revision);
}

static enum fg_code too_old(struct fg_err *err)
{
    return fg_fail(err, FG_E_PRECONDITION, "the cached ring or manifests are too old");
}

/* Nobody is left who could be asked. */
static enum fg_code take_what_there_is(struct qry_reading *reading, struct fg_err *err)
{
    if (reading->question->ring != NULL && !reading->needs_slow && is_any(reading->slow)) {
        reading->needs_slow = true;
        return begin_attempt(reading, err);
    }
    if (reading->too_old && !reading->last_try && reading->question->ring != NULL)
        return too_old(err);
    if (!reading->question->partial) {
        count(reading, REPLICAS_REFUSED, 1);
        return fail(reading, err);
    }
    if (reading->question->ring != NULL && !reading->lenient && is_damaged(reading)) {
        reading->lenient = true;
        memset(reading->down, 0, sizeof reading->down);
        return begin_attempt(reading, err);
    }
    say_missing(reading);
    return compare(reading, err);
}

/* ---- comparing ---- */

static const ProtobufCMessageDescriptor *descriptor_of(enum fg_rpc_method method)
{
    switch (method) {
    case FG_RPC_SELECT:
        return &fg__inner__select_reply__descriptor;
    case FG_RPC_POINTS:
        return &fg__inner__points_reply__descriptor;
    default:
        fg_assert(method == FG_RPC_STATS);
        return &fg__inner__stats_reply__descriptor;
    }
}

/* The sums of a reply. */
static void sums_of(enum fg_rpc_method method, const ProtobufCMessage *message,
                    Fg__Inner__GroupSum *const **ret_sums, size_t *ret_n)
{
    if (method == FG_RPC_SELECT) {
        *ret_sums = ((const Fg__Inner__SelectReply *)message)->sums;
        *ret_n = ((const Fg__Inner__SelectReply *)message)->n_sums;
    } else if (method == FG_RPC_POINTS) {
        *ret_sums = ((const Fg__Inner__PointsReply *)message)->sums;
        *ret_n = ((const Fg__Inner__PointsReply *)message)->n_sums;
    } else {
        *ret_sums = ((const Fg__Inner__StatsReply *)message)->sums;
        *ret_n = ((const Fg__Inner__StatsReply *)message)->n_sums;
    }
}

/* A member's answer cannot be made sense of, or not believed. */
static enum fg_code bad_answer(const struct qry_reading *reading, const struct qry_reading_leg *leg,
                               struct fg_err *err)
{
    return fg_wrap(err, "response of ingester %.*s", FG_S(name_of(reading, leg->member)));
}

static enum fg_code read_answer(const struct qry_reading *reading,
                                const struct qry_reading_leg *leg,
                                struct qry_compare_answer *ret_answer, struct fg_err *err)
{
    Fg__Inner__GroupSum *const *sums;
    ProtobufCMessage *message;
    size_t n;

    if (fg_pb_read(leg->call->call.reply_head, descriptor_of(reading->method), reading->arena,
                   &message, err) != FG_OK)
        return bad_answer(reading, leg, err);
    sums_of(reading->method, message, &sums, &n);
    if (qry_compare_read(sums, n, &leg->sums, reading->arena, ret_answer, err) != FG_OK)
        return bad_answer(reading, leg, err);
    if (qry_legs_counts(leg))
        ret_answer->data = leg->data;
    return FG_OK;
}

/* Those who answered, and what. */
struct answers {
    struct qry_reading_leg **legs;
    struct qry_compare_answer *items;
    uint32_t n;
};

static enum fg_code read_answers(const struct qry_reading *reading, struct answers *answers,
                                 struct fg_err *err)
{
    uint32_t n = 0;

    for (struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next)
        n += leg->state == LEG_ANSWERED && leg->n_ids == 0;
    answers->legs = fg_arena_new(reading->arena, struct qry_reading_leg *, n);
    answers->items = fg_arena_new(reading->arena, struct qry_compare_answer, n);
    answers->n = 0;
    if (answers->legs == NULL || answers->items == NULL)
        return too_large(err);
    for (struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next)
        if (leg->state == LEG_ANSWERED && leg->n_ids == 0) {
            answers->legs[answers->n] = leg;
            if (read_answer(reading, leg, &answers->items[answers->n++], err) != FG_OK)
                return err->code;
        }
    return FG_OK;
}

/* What comes from now on is not compared with anything, so it is not wanted. */
static void take_no_more(struct qry_reading *reading)
{
    for (struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next) {
        if (leg->state != LEG_UNDER_WAY && leg->state != LEG_LATE)
            continue;
        fg_bits_set(reading->slow, leg->member);
        count(reading, REPLICAS_DROPPED, 1);
        qry_calls_drop(leg->call);
        leg->state = LEG_FAILED;
    }
}

static enum fg_code compare(struct qry_reading *reading, struct fg_err *err)
{
    struct qry_compare_result result;
    struct answers answers;

    take_no_more(reading);
    reading->state = READING_DONE;
    if (reading->question->ring == NULL || qry_legs_unite(reading->method))
        return FG_OK;
    if (read_answers(reading, &answers, err) != FG_OK ||
        qry_compare_answers(answers.items, answers.n, reading->arena, &result, err) != FG_OK)
        return err->code;
    if (result.n_differ > 0) { /* all anew, with the ids of these groups */
        count(reading, REPLICAS_DIFFERENT, 1);
        return qry_ids_wanted_add(&reading->ids, &result, reading->arena, err) == FG_OK
                   ? begin_attempt(reading, err)
                   : err->code;
    }
    count(reading, result.n_missing == 0 ? REPLICAS_EQUAL : REPLICAS_MISSING, 1);
    if (result.n_missing == 0)
        return FG_OK;
    reading->state = READING_FETCHING;
    return qry_legs_fetch(reading, answers.legs, &result, err);
}

/* ---- steps ---- */

static bool may_be_late(const struct qry_reading *reading)
{
    return reading->question->ring != NULL &&
           (reading->state == READING_ASKING || !reading->patient);
}

static int64_t late_mono_ns(const struct qry_reading *reading, const struct qry_reading_leg *leg)
{
    return fg_time_add(leg->sent_mono_ns, reading->question->querier->hedge_after_ns);
}

/* From when on an answer with what there is, is better than none. */
static int64_t enough_waiting_mono_ns(const struct qry_reading *reading)
{
    const struct qry_question *question = reading->question;
    int64_t left_ns = question->deadline_mono_ns - question->start_mono_ns;

    return question->partial ? fg_time_add(reading->begun_mono_ns, left_ns / 2) : INT64_MAX;
}

/* One that was under way: has it ended, or is it late? *moved: that is new. */
static enum fg_code look_at(struct qry_reading *reading, struct qry_reading_leg *leg, bool *moved,
                            struct fg_err *err)
{
    if (leg->call == NULL || qry_calls_has_ended(leg->call)) {
        *moved = true;
        if (leg->call == NULL || leg->call->call.code != FG_OK)
            return take_failure(reading, leg, err);
        leg->state = LEG_ANSWERED;
        count(reading, REPLICAS_ANSWERED, 1);
        /* A stand-in is asked for a part of what it owns. */
        if (leg->member != FG_RING_NO_MEMBER && leg->instead_of == NULL)
            fg_ring_reads_heard(&reading->reads, leg->member);
    } else if (leg->state == LEG_UNDER_WAY && may_be_late(reading) &&
               now_mono_ns() >= late_mono_ns(reading, leg)) {
        *moved = true;
        leg->state = LEG_LATE;
        fg_call_is_late(&leg->call->call);
        count(reading, REPLICAS_LATE, 1);
        fg_ring_reads_failed(&reading->reads, leg->member);
    }
    return FG_OK;
}

static enum fg_code look_at_all(struct qry_reading *reading, bool *moved, struct fg_err *err)
{
    for (struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next)
        if ((leg->state == LEG_UNDER_WAY || leg->state == LEG_LATE) &&
            look_at(reading, leg, moved, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static bool is_waiting(const struct qry_reading *reading)
{
    bool late_counts = now_mono_ns() < enough_waiting_mono_ns(reading);

    for (const struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next)
        if (leg->state == LEG_UNDER_WAY || (leg->state == LEG_LATE && late_counts))
            return true;
    return false;
}

static enum fg_code step_asking(struct qry_reading *reading, bool *moved, struct fg_err *err)
{
    if (look_at_all(reading, moved, err) != FG_OK)
        return err->code;
    if (*moved && reading->question->ring != NULL && qry_legs_stand_in(reading, err) != FG_OK)
        return err->code;
    if ((*moved || reading->legs == NULL) && qry_legs_are_enough(reading)) {
        *moved = true;
        return compare(reading, err);
    }
    if (is_hopeless_until_fresher(reading))
        return too_old(err);
    if (is_waiting(reading))
        return FG_OK;
    *moved = true;
    return take_what_there_is(reading, err);
}

/* It had them a moment ago. */
static enum fg_code check_fetched(struct qry_reading *reading, struct qry_reading_leg *leg,
                                  struct fg_err *err)
{
    const Fg__Inner__Stats *stats;
    ProtobufCMessage *message;

    if (fg_pb_read(leg->call->call.reply_head, descriptor_of(reading->method), reading->arena,
                   &message, err) != FG_OK)
        return bad_answer(reading, leg, err);
    stats = reading->method == FG_RPC_SELECT ? ((Fg__Inner__SelectReply *)message)->stats
                                             : ((Fg__Inner__PointsReply *)message)->stats;
    if (stats == NULL || stats->profiles != leg->n_ids)
        return fg_fail(err, FG_E_CORRUPT, "ingester %.*s returned %llu of its %llu profiles",
                       FG_S(name_of(reading, leg->member)),
                       (unsigned long long)(stats == NULL ? 0 : stats->profiles),
                       (unsigned long long)leg->n_ids);
    return FG_OK;
}

static enum fg_code step_fetching(struct qry_reading *reading, bool *moved, struct fg_err *err)
{
    bool again = false; /* without those who failed; or who are late, but that once only */

    if (look_at_all(reading, moved, err) != FG_OK)
        return err->code;
    for (struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next) {
        if (leg->n_ids == 0)
            continue;
        if (leg->state == LEG_UNDER_WAY)
            return FG_OK;
        again = again || leg->state != LEG_ANSWERED;
        reading->patient = reading->patient || leg->state == LEG_LATE;
    }
    *moved = true;
    if (again)
        return begin_attempt(reading, err);
    for (struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next) {
        if (leg->n_ids > 0 && check_fetched(reading, leg, err) != FG_OK)
            return err->code;
        count(reading, REPLICAS_FETCHED, leg->n_ids);
    }
    reading->state = READING_DONE;
    return FG_OK;
}

enum fg_code qry_reading_step(struct qry_reading *reading, bool *ret_moved, struct fg_err *err)
{
    *ret_moved = false;
    switch (reading->state) {
    case READING_ASKING:
        return step_asking(reading, ret_moved, err);
    case READING_FETCHING:
        return step_fetching(reading, ret_moved, err);
    case READING_DONE:
        break;
    }
    return FG_OK;
}

int64_t qry_reading_wake_mono_ns(const struct qry_reading *reading)
{
    int64_t wake_ns = INT64_MAX;

    if (reading->state == READING_DONE)
        return INT64_MAX;
    for (const struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next) {
        if (leg->state == LEG_UNDER_WAY && may_be_late(reading))
            wake_ns = FG_MIN(wake_ns, late_mono_ns(reading, leg));
        if (leg->state == LEG_LATE)
            wake_ns = FG_MIN(wake_ns, enough_waiting_mono_ns(reading));
    }
    return wake_ns;
}

/* ---- the answer ---- */

/* What several said of their groups, as if one had said it. */
static enum fg_code deliver_stats(struct qry_reading *reading, replicas_reply take, void *arg,
                                  struct fg_err *err)
{
    Fg__Inner__StatsReply joined = FG__INNER__STATS_REPLY__INIT;
    struct fg_call call = {.method = FG_RPC_STATS};
    struct answers answers;
    uint8_t bytes[64];

    if (read_answers(reading, &answers, err) != FG_OK ||
        qry_compare_greatest(answers.items, answers.n, reading->arena, &joined.profiles, err) !=
            FG_OK)
        return err->code;
    for (uint32_t i = 0, seen = 0; i < answers.n; i++) {
        ProtobufCMessage *message;

        if (fg_pb_read(answers.legs[i]->call->call.reply_head, &fg__inner__stats_reply__descriptor,
                       reading->arena, &message, err) != FG_OK)
            return err->code;
        const Fg__Inner__StatsReply *reply = (Fg__Inner__StatsReply *)message;
        if (reply->profiles == 0)
            continue;
        joined.oldest_ns =
            seen == 0 ? reply->oldest_ns : FG_MIN(joined.oldest_ns, reply->oldest_ns);
        joined.newest_ns =
            seen++ == 0 ? reply->newest_ns : FG_MAX(joined.newest_ns, reply->newest_ns);
    }
    fg_assert(fg__inner__stats_reply__get_packed_size(&joined) <= sizeof bytes);
    call.reply_head = fg_bytes(bytes, fg__inner__stats_reply__pack(&joined, bytes));
    return take(reading->question, &call, arg, err);
}

static bool is_delivered(const struct qry_reading *reading, const struct qry_reading_leg *leg)
{
    if (leg->state != LEG_ANSWERED)
        return false;
    if (reading->question->ring == NULL || reading->method == FG_RPC_SERIES || leg->n_ids > 0)
        return true;
    return leg->data.bits.len > 0 && qry_legs_counts(leg);
}

enum fg_code qry_reading_deliver(struct qry_reading *reading, replicas_reply take, void *arg,
                                 struct fg_err *err)
{
    fg_assert(reading->state == READING_DONE);
    if (reading->question->ring != NULL && reading->method == FG_RPC_STATS)
        return deliver_stats(reading, take, arg, err);
    for (struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next) {
        uint64_t series = reading->question->series;

        if (!is_delivered(reading, leg))
            continue;
        if (take(reading->question, &leg->call->call, arg, err) != FG_OK)
            return err->code;
        if (leg->n_ids > 0)
            reading->question->series = series; /* somebody's data has counted them */
    }
    return FG_OK;
}
