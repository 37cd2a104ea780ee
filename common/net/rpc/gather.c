/*
 * The callers' side of large answers: MORE calls to the same peer, one after another, until the
 * payload is there.
 *
 *   first reply --> [all of it here] --------------------------------> end
 *       |                                                               ^
 *       +--> ask --> part --> ask --> part ... --> last part -----------+
 *                      \--> too large, not wanted: ask to drop it ------+
 *
 * It runs where replies arrive (chain.h).
 */
#include "common/base/cursor.h"
#include "common/net/rpc/call.h"
#include "common/net/rpc/chain.h"

static const uint64_t DROP = UINT64_MAX; /* as an offset: the rest is not wanted */

struct fg_gather {
    struct fg_chain chain; /* of the calls for more */
    struct fg_call *call;  /* the one that the payload is for */
    struct fg_buf payload; /* empty when the caller takes parts */
    struct fg_buf ask;     /* the head of a MORE */
    uint64_t key, offset, left;
    bool dropping;
};

static void fail(struct fg_call *call, enum fg_code code, const char *text)
{
    call->reply_head = call->reply_payload = (struct fg_slice){NULL, 0};
    call->code = fg_fail(&call->err, code, "%s", text);
}

static enum fg_code hand_over(struct fg_gather *gather, struct fg_slice part, struct fg_err *err)
{
    struct fg_call *call = gather->call;

    if (atomic_load(&call->unwanted) ||
        (call->on_part != NULL && part.len > 0 && !call->on_part(call, part)))
        return fg_fail(err, FG_E_CANCELED, "the caller canceled the rest of the response");
    if (call->on_part == NULL)
        fg_buf_put(&gather->payload, part);
    gather->offset += part.len;
    return FG_OK;
}

/* A server of ours sends what it said there was left: one that does not would have us ask for ever.
 */
static enum fg_code take_part(struct fg_gather *gather, struct fg_err *err)
{
    const struct fg_call *more = &gather->chain.call;

    if (more->code != FG_OK) {
        *err = more->err;
        return fg_wrap(err, "rest of the response");
    }
    if (more->reply_payload.len == 0 || more->reply_payload.len > gather->left ||
        more->rest_bytes != gather->left - more->reply_payload.len)
        return fg_fail(err, FG_E_INVALID,
                       "rest of the response: %zu bytes and %llu to come, of %llu",
                       more->reply_payload.len, (unsigned long long)more->rest_bytes,
                       (unsigned long long)gather->left);
    gather->left = more->rest_bytes;
    return hand_over(gather, more->reply_payload, err);
}

static void end(struct fg_gather *gather)
{
    struct fg_call *call = gather->call;

    if (call->code == FG_OK)
        call->reply_payload = fg_buf_slice(&gather->payload);
    fg_call_end(call);
}

static bool go_on(struct fg_chain *chain)
{
    struct fg_gather *gather = fg_container(chain, struct fg_gather, chain);
    struct fg_call *call = gather->call;
    bool dropped = gather->dropping;
    struct fg_err err;

    if (!dropped && take_part(gather, &err) != FG_OK) {
        gather->dropping = chain->call.code == FG_OK; /* else there is nothing to be dropped */
        fail(call, err.code, err.msg);
    }
    fg_call_done(call->peer, &chain->call);
    if (dropped || (call->code != FG_OK && !gather->dropping) || gather->left == 0) {
        end(gather);
        return false;
    }
    return true;
}

static void prepare(struct fg_chain *chain)
{
    struct fg_gather *gather = fg_container(chain, struct fg_gather, chain);

    fg_buf_clear(&gather->ask);
    fg_buf_le64(&gather->ask, gather->key);
    fg_buf_le64(&gather->ask, gather->dropping ? DROP : gather->offset);
    chain->call = (struct fg_call){
        .method = FG_RPC_MORE,
        .head = fg_buf_slice(&gather->ask),
        .deadline_mono_ns = gather->call->deadline_mono_ns,
        .single = true,
    };
}

static struct fg_gather *create(struct fg_call *call)
{
    struct fg_gather *gather = fg_new(struct fg_gather);

    gather->chain = (struct fg_chain){.peer = call->peer, .prepare = prepare, .go_on = go_on};
    gather->call = call;
    gather->key = call->rest_key;
    gather->left = call->rest_bytes;
    fg_buf_init(&gather->ask, 16);
    call->gather = gather;
    return gather;
}

static enum fg_code take_first(struct fg_gather *gather, struct fg_slice part, uint64_t max,
                               struct fg_err *err)
{
    size_t room = 0;

    if (part.len > max || gather->left > max - part.len)
        return fg_fail(err, FG_E_LIMIT, "the response exceeds %llu bytes", (unsigned long long)max);
    if (gather->call->on_part == NULL)
        room = part.len + gather->left;
    fg_buf_init(&gather->payload, room);
    (void)fg_buf_reserve(&gather->payload, room);
    return hand_over(gather, part, err);
}

void fg_gather_start(struct fg_call *call)
{
    uint64_t max = call->reply_max_bytes > 0 ? call->reply_max_bytes : FG_RPC_REPLY_MAX_BYTES;
    struct fg_slice first = call->reply_payload;
    struct fg_gather *gather;
    struct fg_err err;

    if (call->rest_bytes == 0 && first.len <= max && call->on_part == NULL) {
        fg_call_end(call); /* as good as always */
        return;
    }
    gather = create(call);
    call->reply_payload = (struct fg_slice){NULL, 0};
    if (take_first(gather, first, max, &err) != FG_OK) {
        gather->dropping = true;
        fail(call, err.code, err.msg);
    }
    if (gather->left > 0)
        fg_chain_run(&gather->chain);
    else
        end(gather);
}

void fg_gather_free(struct fg_gather *gather)
{
    if (gather == NULL)
        return;
    fg_buf_done(&gather->payload);
    fg_buf_done(&gather->ask);
    free(gather);
}
