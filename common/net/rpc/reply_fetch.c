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

struct fg_reply_fetch {
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

static enum fg_code hand_over(struct fg_reply_fetch *fetch, struct fg_slice part,
                              struct fg_err *err)
{
    struct fg_call *call = fetch->call;

    if (atomic_load(&call->unwanted) ||
        (call->on_part != NULL && part.len > 0 && !call->on_part(call, part)))
        return fg_fail(err, FG_E_CANCELED, "the caller canceled the rest of the response");
    if (call->on_part == NULL)
        fg_buf_put(&fetch->payload, part);
    fetch->offset += part.len;
    return FG_OK;
}

/* Our servers send exactly what they said was left. Without the check, a faulty one could make
 * us ask for ever. The request is not at fault: another server may answer it. */
static enum fg_code take_part(struct fg_reply_fetch *fetch, struct fg_err *err)
{
    const struct fg_call *more = &fetch->chain.call;

    if (more->code != FG_OK) {
        *err = more->err;
        return fg_wrap(err, "rest of the response");
    }
    if (more->reply_payload.len == 0 || more->reply_payload.len > fetch->left ||
        more->rest_bytes != fetch->left - more->reply_payload.len)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "rest of the response: %zu bytes and %llu to come, of %llu",
                       more->reply_payload.len, (unsigned long long)more->rest_bytes,
                       (unsigned long long)fetch->left);
    fetch->left = more->rest_bytes;
    return hand_over(fetch, more->reply_payload, err);
}

static void end_fetch(struct fg_reply_fetch *fetch)
{
    struct fg_call *call = fetch->call;

    if (call->code == FG_OK)
        call->reply_payload = fg_buf_slice(&fetch->payload);
    fg_call_end(call);
}

static bool go_on(struct fg_chain *chain)
{
    struct fg_reply_fetch *fetch = fg_container(chain, struct fg_reply_fetch, chain);
    struct fg_call *call = fetch->call;
    bool dropped = fetch->dropping;
    struct fg_err err;

    if (!dropped && take_part(fetch, &err) != FG_OK) {
        fetch->dropping = chain->call.code == FG_OK; /* else there is nothing to be dropped */
        fail(call, err.code, err.msg);
    }
    fg_call_done(call->peer, &chain->call);
    if (dropped || (call->code != FG_OK && !fetch->dropping) || fetch->left == 0) {
        end_fetch(fetch);
        return false;
    }
    return true;
}

static void prepare(struct fg_chain *chain)
{
    struct fg_reply_fetch *fetch = fg_container(chain, struct fg_reply_fetch, chain);

    fg_buf_clear(&fetch->ask);
    fg_buf_le64(&fetch->ask, fetch->key);
    fg_buf_le64(&fetch->ask, fetch->dropping ? DROP : fetch->offset);
    chain->call = (struct fg_call){
        .method = FG_RPC_MORE,
        .head = fg_buf_slice(&fetch->ask),
        .deadline_mono_ns = fetch->call->deadline_mono_ns,
        .single = true,
    };
}

static struct fg_reply_fetch *create(struct fg_call *call)
{
    struct fg_reply_fetch *fetch = fg_new(struct fg_reply_fetch);

    fetch->chain = (struct fg_chain){.peer = call->peer, .prepare = prepare, .go_on = go_on};
    fetch->call = call;
    fetch->key = call->rest_key;
    fetch->left = call->rest_bytes;
    fg_buf_init(&fetch->ask, 16);
    call->fetch = fetch;
    return fetch;
}

static enum fg_code take_first(struct fg_reply_fetch *fetch, struct fg_slice part, uint64_t max,
                               struct fg_err *err)
{
    size_t room = 0;

    if (part.len > max || fetch->left > max - part.len)
        return fg_fail(err, FG_E_LIMIT, "the response exceeds %llu bytes", (unsigned long long)max);
    if (fetch->call->on_part == NULL)
        room = part.len + fetch->left;
    fg_buf_init(&fetch->payload, room);
    (void)fg_buf_reserve(&fetch->payload, room);
    return hand_over(fetch, part, err);
}

void fg_reply_fetch_start(struct fg_call *call)
{
    uint64_t max = call->reply_max_bytes > 0 ? call->reply_max_bytes : FG_RPC_REPLY_MAX_BYTES;
    struct fg_slice first = call->reply_payload;
    struct fg_reply_fetch *fetch;
    struct fg_err err;

    if (call->rest_bytes == 0 && first.len <= max && call->on_part == NULL) {
        fg_call_end(call); /* as good as always */
        return;
    }
    fetch = create(call);
    call->reply_payload = (struct fg_slice){NULL, 0};
    if (take_first(fetch, first, max, &err) != FG_OK) {
        fetch->dropping = true;
        fail(call, err.code, err.msg);
    }
    if (fetch->left > 0)
        fg_chain_run(&fetch->chain);
    else
        end_fetch(fetch);
}

void fg_reply_fetch_free(struct fg_reply_fetch *fetch)
{
    if (fetch == NULL)
        return;
    fg_buf_done(&fetch->payload);
    fg_buf_done(&fetch->ask);
    free(fetch);
}
