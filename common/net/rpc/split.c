/*
 * The callers' side of large requests: PART calls to the same peer, one after another. The answer
 * to the last one is the call's.
 *
 *   part --> part --> ... --> last part --> the answer, or its first part (reply_fetch.c)
 *     \--------\--> refused, lost, not wanted: the call fails
 *
 * It runs where replies arrive (chain.h).
 */
#include "common/base/buf.h"
#include "common/net/rpc/call.h"
#include "common/net/rpc/chain.h"
#include "common/net/rpc/kinds.h"

enum { PART_HEAD_BYTES = 24 }; /* key, offset, total */

struct fg_split {
    struct fg_chain chain; /* of the parts */
    struct fg_call *call;  /* the one that is sent */
    struct fg_buf frame;   /* all of it */
    struct fg_buf head;    /* of the part under way */
    uint64_t key;
    size_t offset, len; /* of the part under way */
};

static bool is_last(const struct fg_split *split)
{
    return split->offset + split->len == split->frame.len;
}

/* The answer to the last part, or the failure of any part, becomes that of the call. */
static void end_split(struct fg_split *split)
{
    struct fg_call *call = split->call, *part = &split->chain.call;

    call->code = part->code;
    call->err = part->err;
    call->transport = fg_take(part->transport);
    call->reply_head = part->reply_head;
    call->reply_payload = part->reply_payload;
    call->rest_key = part->rest_key;
    call->rest_bytes = part->rest_bytes;
    fg_call_done(call->peer, part);
    fg_buf_done(&split->frame); /* the answer may take long to come */
    fg_call_deliver(call);
}

static bool go_on(struct fg_chain *chain)
{
    struct fg_split *split = fg_container(chain, struct fg_split, chain);
    struct fg_call *part = &chain->call;

    if (part->code == FG_OK && !is_last(split) && atomic_load(&split->call->unwanted))
        part->code = fg_fail(&part->err, FG_E_CANCELED, "the caller canceled the response");
    if (part->code != FG_OK || is_last(split)) {
        end_split(split);
        return false;
    }
    fg_call_done(split->call->peer, part);
    split->offset += split->len;
    return true;
}

static void prepare(struct fg_chain *chain)
{
    struct fg_split *split = fg_container(chain, struct fg_split, chain);
    const uint64_t head[] = {split->key, split->offset, split->frame.len};

    fg_buf_clear(&split->head);
    for (size_t i = 0; i < FG_COUNT(head); i++)
        fg_buf_le64(&split->head, head[i]);
    split->len = FG_MIN(split->frame.len - split->offset, (size_t)FG_RPC_PART_BYTES);
    chain->call = (struct fg_call){
        .method = FG_RPC_PART,
        .head = fg_buf_slice(&split->head),
        .payload = fg_slice_sub(fg_buf_slice(&split->frame), split->offset, split->len),
        .deadline_mono_ns = split->call->deadline_mono_ns,
        .single = true,
    };
}

void fg_split_send(struct fg_call *call, const struct fg_rpc_frame *frame)
{
    /* A connection has one peer at its other end: a number of the process is enough. */
    static _Atomic uint64_t next_key;
    struct fg_split *split = fg_new(struct fg_split);
    size_t size = fg_rpc_frame_size(frame);

    split->call = call;
    split->key = atomic_fetch_add(&next_key, 1);
    fg_buf_init(&split->head, PART_HEAD_BYTES);
    fg_buf_init(&split->frame, size);
    fg_assert(fg_buf_reserve(&split->frame, size));
    fg_rpc_frame_encode(frame, split->frame.ptr);
    split->frame.len = size;
    call->split = split;
    split->chain = (struct fg_chain){.peer = call->peer, .prepare = prepare, .go_on = go_on};
    fg_chain_run(&split->chain);
}

void fg_split_free(struct fg_split *split)
{
    if (split == NULL)
        return;
    fg_buf_done(&split->frame);
    fg_buf_done(&split->head);
    free(split);
}
