#include "common/base/time.h"
#include "common/model/limit_of.h"
#include "ingester/forward/parcel_impl.h"
#include "proto/forward_v1.pb-c.h"
#include "proto/push_v1.pb-c.h"

#include <jansson.h>

/* After so many misses in a row 254 batches have whole ids. */
enum { MISSES_MAX = 8 };

/* Of the body of an answer in an error. */
enum { SHOWN_MAX_BYTES = 300 };

/* A target cannot make us wait for too long, nor ask us all the time. */
static const int64_t LIMIT_HOLD_MIN_NS = FG_SECOND_NS, LIMIT_HOLD_MAX_NS = 10 * FG_MINUTE_NS;
/* As after a page that could not be read: each try reads it again from the bucket. */
static const int64_t PAGE_HOLD_NS = 10 * FG_SECOND_NS;

/* ---- of a batch ---- */

/* The batch as a whole is refused: its only profile, or one of them, is at fault. */
static void divide_batch(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                         const char *reason)
{
    for (uint32_t i = 0; i < batch->n; i++) {
        if (batch->n == 1)
            ing_parcel_refuse_item(parcel, batch->items[i], reason);
        else
            batch->items[i]->alone = true;
    }
}

/* Also what a part of an answer has refused of which another part makes no sense. */
static void put_off(struct ing_parcel_batch *batch)
{
    for (uint32_t i = 0; i < batch->n; i++) {
        batch->items[i]->outbox->outcome = OUTBOX_AGAIN;
        batch->items[i]->state = ITEM_LATER;
    }
}

/* The target takes nothing of the tenant of the round, of which these batches are, for some time.
 * Returns `otherwise` if that holds for all that is sent there. */
static enum ing_sender_result hold_batches(struct ing_parcel *parcel,
                                           struct ing_parcel_batch *batches, size_t n,
                                           int64_t for_ns, enum ing_sender_result otherwise,
                                           const struct fg_err *err)
{
    /* Batches of a round may be beyond limits of different lengths. */
    if (parcel->round_denied || parcel->round_limited)
        for_ns = FG_MAX(for_ns, parcel->held_ns);
    /* A page, which is of one tenant, holds it when it ends. */
    if (!ing_parcel_has_tenants(parcel) ||
        (!ing_parcel_is_of_page(parcel) &&
         !ing_outbox_hold(parcel->common->outbox, parcel->span.target,
                          ing_parcel_tenant_of(parcel->first), for_ns)))
        return otherwise;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < batches[i].n; k++)
            ing_parcel_hold_item(batches[i].items[k]);
    parcel->round_denied |= otherwise == SENDER_DENIED;
    parcel->round_limited |= otherwise == SENDER_BUSY;
    parcel->held = *err;
    parcel->held_tenant = parcel->tenant;
    parcel->held_ns = for_ns;
    return SENDER_TAKEN;
}

/* The tenant of the round is beyond a limit of its own. for_ns: as the target says; 0: it does not
 * know. */
static enum ing_sender_result hold_limited(struct ing_parcel *parcel,
                                           struct ing_parcel_batch *batches, size_t n,
                                           int64_t for_ns, const struct fg_err *err)
{
    return hold_batches(parcel, batches, n,
                        FG_MIN(FG_MAX(for_ns, LIMIT_HOLD_MIN_NS), LIMIT_HOLD_MAX_NS), SENDER_BUSY,
                        err);
}

/* Batches of the round are refused for lack of something, such as room for series, and the answer
 * does not tell whether others lack it, too. So the target counts as busy; but if the limit is the
 * tenant's own it will refuse these for long, and what others have behind them is not to wait for
 * that. */
static void let_others_pass(struct ing_parcel *parcel, struct ing_parcel_batch *batches, size_t n)
{
    if (!ing_parcel_has_tenants(parcel))
        return;
    if (ing_parcel_is_of_page(parcel)) {
        parcel->held_ns = FG_MAX(parcel->held_ns, parcel->common->pass_ns);
        return;
    }
    if (!ing_outbox_hold(parcel->common->outbox, parcel->span.target,
                         ing_parcel_tenant_of(parcel->first), parcel->common->pass_ns))
        return;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < batches[i].n; k++)
            ing_parcel_hold_item(batches[i].items[k]);
}

/* Returns false if the target asks again for what it has just got. */
static bool define_batch(struct ing_parcel *parcel, struct ing_parcel_batch *batch, uint32_t stored)
{
    bool before = false;

    fg_definition_cache_forget(parcel->common->definition_cache, batch->cache_key);
    for (uint32_t i = 0; i < batch->n; i++) {
        before |= batch->items[i]->define;
        batch->items[i]->define = true;
    }
    batch->items[0]->own = FG_MAX(batch->items[0]->own, FG_MIN(stored, batch->n));
    return !before;
}

/* The target does not know the short ids of the batch. It may have restarted, and then knows them
 * from now on; or the next request reaches another server of it. Returns false if whole ids were
 * sent. */
static bool expand_batch(struct ing_parcel *parcel, struct ing_parcel_batch *batch)
{
    uint32_t misses = FG_MIN(atomic_load(&parcel->peer->misses) + 1, MISSES_MAX);

    atomic_store(&parcel->peer->misses, misses);
    atomic_store(&parcel->peer->whole_left, (UINT32_C(1) << misses) - 2);
    for (uint32_t i = 0; i < batch->n; i++)
        batch->items[i]->whole = true;
    return batch->is_short;
}

/* The target has known short ids. */
static void note_known(struct ing_parcel *parcel)
{
    uint32_t misses = atomic_load(&parcel->peer->misses);

    if (misses > 0) /* one that is lost since two threads count is no harm */
        atomic_store(&parcel->peer->misses, misses - 1);
}

static bool take_refused(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                         const Forward__V1__Result *result)
{
    for (size_t i = 0; i < result->n_refused; i++) {
        const Forward__V1__Refusal *refusal = result->refused[i];

        if (refusal->profile >= batch->n || batch->items[refusal->profile]->state != ITEM_OPEN)
            return false;
        ing_parcel_refuse_item(parcel, batch->items[refusal->profile], refusal->message);
    }
    return true;
}

/* Returns how many profiles of the batch the target knows only since this parcel has sent them:
 * some of its servers had stored them when others asked for definitions. */
static uint32_t own_of(const struct ing_parcel_batch *batch, uint32_t known)
{
    uint64_t own = 0;

    for (uint32_t i = 0; i < batch->n; i++)
        own += batch->items[i]->own;
    return (uint32_t)FG_MIN(own, known);
}

/* Every profile of a batch has to be accounted for, or the answer is none. */
static bool take_stored(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                        const Forward__V1__Result *result)
{
    uint64_t n = (uint64_t)result->stored + result->known + result->dropped + result->n_refused;
    uint32_t own;

    if (n != batch->n || !take_refused(parcel, batch, result))
        return false;
    own = own_of(batch, result->known);
    for (uint32_t i = 0; i < batch->n; i++)
        if (batch->items[i]->state == ITEM_OPEN) {
            ing_parcel_close_item(batch->items[i], OUTBOX_DONE);
            /* A page's batch has one profile. */
            batch->items[i]->known = result->known - own == n;
            batch->items[i]->filtered = result->dropped == n;
        }
    if (batch->is_short)
        note_known(parcel);
    parcel->n_stored += result->stored + own;
    parcel->n_known += result->known - own;
    fg_definition_cache_add(parcel->common->definition_cache, batch->cache_key, 1, batch->defined,
                            batch->n_defined);
    return true;
}

static enum ing_sender_result take_limit(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                                         const Forward__V1__Result *result,
                                         const struct fg_err *err)
{
    int64_t for_ns = (int64_t)result->retry_after_s * FG_SECOND_NS;

    switch (fg_limit_of_number(result->limit_of)) {
    case FG_LIMIT_OF_TENANT:
        if (for_ns == 0 && ing_parcel_is_of_page(parcel))
            for_ns = PAGE_HOLD_NS;
        return hold_limited(parcel, batch, 1, for_ns, err);
    case FG_LIMIT_OF_SERVER:
        break;
    case FG_LIMIT_OF_UNSAID:
        let_others_pass(parcel, batch, 1);
        break;
    }
    return SENDER_BUSY;
}

static enum ing_sender_result take_result(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                                          const Forward__V1__Result *result, struct fg_err *err)
{
    /* This code says that the same bytes will be refused again. Others may be trouble of the
     * target's own, such as data_loss of one of its disks. */
    if (result->code == fg_code_grpc(FG_E_INVALID)) {
        divide_batch(parcel, batch, result->message);
        return SENDER_TAKEN;
    }
    if (result->code != 0) {
        (void)fg_fail(err, FG_E_UNAVAILABLE, "%s", result->message);
        put_off(batch);
        if (result->code == fg_code_grpc(FG_E_LIMIT))
            return take_limit(parcel, batch, result, err);
        if (result->code != fg_code_grpc(FG_E_DENIED))
            return SENDER_BUSY;
        return hold_batches(parcel, batch, 1, parcel->common->hold_ns, SENDER_DENIED, err);
    }
    if (result->expand   ? expand_batch(parcel, batch)
        : result->define ? define_batch(parcel, batch, result->stored)
                         : take_stored(parcel, batch, result))
        return SENDER_TAKEN;
    put_off(batch);
    (void)fg_fail(err, FG_E_UNAVAILABLE, "an answer that does not fit the request");
    return SENDER_AWAY;
}

/* Another program answers at the URL, or a proxy: its words tell which. */
static enum ing_sender_result fail_foreign(struct fg_slice body, const char *protocol,
                                           struct fg_err *err)
{
    (void)fg_fail(err, FG_E_UNAVAILABLE,
                  "status 200, but the answer is none of %s; does url lead to the target? %.*s",
                  protocol, FG_S(fg_slice_sub(body, 0, SHOWN_MAX_BYTES)));
    return SENDER_AWAY;
}

static enum ing_sender_result take_results(struct ing_parcel *parcel, struct fg_slice body,
                                           struct fg_err *err)
{
    Forward__V1__PushResponse *response =
        forward__v1__push_response__unpack(NULL, body.len, body.ptr);
    enum ing_sender_result worst = SENDER_TAKEN;
    uint32_t busy_s = 0;

    if (response == NULL || response->n_results != parcel->n_batches) {
        worst = fail_foreign(response == NULL ? body : FG_LIT(""), "forward.v1", err);
    } else {
        atomic_store(&parcel->peer->version, FG_MAX(response->version, 1));
        for (size_t i = 0; i < parcel->n_batches; i++) {
            enum ing_sender_result result =
                take_result(parcel, &parcel->batches[i], response->results[i], err);

            worst = FG_MAX(worst, result);
            if (result == SENDER_BUSY)
                busy_s = FG_MAX(busy_s, response->results[i]->retry_after_s);
        }
        /* The header has the longest time, which may be that of the tenant. */
        if (parcel->round_limited)
            parcel->retry_after_ns = (int64_t)busy_s * FG_SECOND_NS;
    }
    forward__v1__push_response__free_unpacked(response, NULL);
    return worst;
}

/* ---- of the request ---- */

static bool is_other_version(const struct ing_parcel_answer *answer)
{
    return answer->status == 400 &&
           fg_slice_search(answer->body, "failed_precondition") != SIZE_MAX;
}

/* Statuses of a route that the target does not have, or of another version of it. */
static bool is_unknown(const struct ing_parcel_answer *answer)
{
    return answer->status == 404 || answer->status == 405 || answer->status == 415 ||
           answer->status == 501 || is_other_version(answer);
}

/* Returns true if the body is an error as flamegrid and Pyroscope write it (Connect), with this
 * code. */
static bool has_code(struct fg_slice body, const char *code)
{
    json_t *error = json_loadb((const char *)body.ptr, body.len, 0, NULL);
    const char *found = json_string_value(json_object_get(error, "code"));
    bool same = found != NULL && strcmp(found, code) == 0;

    json_decref(error);
    return same;
}

/* Returns true if the target itself refuses what was sent, so that the same bytes would be refused
 * again. Any other 4xx may come from a proxy on the way, which is no reason to give up a profile.
 * 413 is a refusal from anybody: a proxy would never let a body of that size pass. */
static bool is_refusal(const struct ing_parcel_answer *answer)
{
    if (answer->status == 413)
        return true;
    if (answer->status == 409)
        return has_code(answer->body, "already_exists");
    return answer->status == 400 &&
           (has_code(answer->body, "invalid_argument") || has_code(answer->body, "out_of_range"));
}

/* Decides all profiles of the round. reason: why they are refused; NULL: the target has them. */
static void close_round(struct ing_parcel *parcel, const char *reason)
{
    for (size_t i = 0; i < parcel->n_batches; i++)
        for (uint32_t k = 0; k < parcel->batches[i].n; k++) {
            if (reason == NULL)
                ing_parcel_close_item(parcel->batches[i].items[k], OUTBOX_DONE);
            else
                ing_parcel_refuse_item(parcel, parcel->batches[i].items[k], reason);
        }
}

/* An answer of push.v1 says nothing of the profile, so one is taken only if it is of the protocol
 * at all: type and message. A page of a proxy, with status 200 as well, is neither. */
static enum ing_sender_result
take_pushed(struct ing_parcel *parcel, const struct ing_parcel_answer *answer, struct fg_err *err)
{
    Push__V1__PushResponse *response =
        answer->is_proto ? push__v1__push_response__unpack(NULL, answer->body.len, answer->body.ptr)
                         : NULL;

    if (response == NULL)
        return fail_foreign(answer->body, "push.v1", err);
    push__v1__push_response__free_unpacked(response, NULL);
    close_round(parcel, NULL);
    parcel->n_stored += parcel->n_sent;
    return SENDER_TAKEN;
}

/* The target itself refuses the round. */
static void take_refusal(struct ing_parcel *parcel, unsigned status, const char *reason)
{
    if (status == 409) /* it has forwarded these profiles itself */
        close_round(parcel, reason);
    else if (parcel->n_sent > 1) /* for a reason that will not pass: send less at a time */
        parcel->round_max = parcel->n_sent / 2;
    else
        ing_parcel_refuse_item(parcel, parcel->batches[0].items[0], reason);
}

static enum ing_sender_result take_answer(struct ing_parcel *parcel,
                                          const struct ing_parcel_answer *answer, bool *ret_unknown,
                                          struct fg_err *err)
{
    struct fg_slice text = fg_slice_sub(answer->body, 0, SHOWN_MAX_BYTES);

    *ret_unknown = false;
    if (!answer->came)
        return SENDER_AWAY;
    if (answer->status == 200)
        return parcel->push ? take_pushed(parcel, answer, err)
                            : take_results(parcel, answer->body, err);
    (void)fg_fail(err, FG_E_UNAVAILABLE, "status %u: %.*s", answer->status, FG_S(text));
    /* An older server behind the same address: it reads version 1. */
    if (parcel->message->version > 1 && is_other_version(answer)) {
        atomic_store(&parcel->peer->version, 1);
        return SENDER_TAKEN;
    }
    /* A proxy whose server is away may say so, too: no reason to give up a profile. */
    if (is_unknown(answer) && (!parcel->push || answer->status != 400)) {
        *ret_unknown = !parcel->push;
        return SENDER_AWAY;
    }
    if (answer->status == 403)
        return hold_batches(parcel, parcel->batches, parcel->n_batches, parcel->common->hold_ns,
                            SENDER_DENIED, err);
    if (answer->status == 401)
        return SENDER_DENIED;
    if (answer->status == 429 && answer->of_limit)
        return hold_limited(parcel, parcel->batches, parcel->n_batches, answer->retry_after_ns,
                            err);
    if (answer->status == 429) /* Pyroscope names no limit */
        let_others_pass(parcel, parcel->batches, parcel->n_batches);
    if (answer->status == 429 || answer->status == 503)
        return SENDER_BUSY;
    if (!is_refusal(answer))
        return SENDER_AWAY;
    take_refusal(parcel, answer->status, err->msg);
    return SENDER_TAKEN;
}

enum ing_sender_result ing_parcel_answer(struct ing_parcel *parcel,
                                         const struct ing_parcel_answer *answer, bool *ret_unknown,
                                         struct fg_err *err)
{
    enum ing_sender_result result;

    parcel->round_denied = parcel->round_limited = false;
    parcel->retry_after_ns = answer->retry_after_ns;
    result = take_answer(parcel, answer, ret_unknown, err);
    parcel->n_denied += parcel->round_denied;
    parcel->n_limited += parcel->round_limited;
    return result;
}
