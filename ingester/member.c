#include "ingester/member.h"

#include "ingester/keys.h"

#include <sys/random.h>

static const struct fg_slice store_key = {(const uint8_t *)"writer", 6};

static enum fg_code make_store_id(struct fg_store *store, uint8_t id[FG_ID_BYTES],
                                  struct fg_err *err)
{
    struct fg_store_batch batch;
    enum fg_code code;

    if (getrandom(id, FG_ID_BYTES, 0) != FG_ID_BYTES)
        return fg_fail(err, FG_E_UNAVAILABLE, "no random numbers");
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_META, store_key, fg_bytes(id, FG_ID_BYTES));
    /* Durable before it is used: if the disk lost an id that the ring has, the next start would
     * make another one, and the head would count as lost. */
    code = fg_store_write(store, &batch, err);
    fg_store_batch_done(&batch);
    return code;
}

enum fg_code ing_member_find_store(struct fg_store *store, struct fg_id *ret_id, struct fg_err *err)
{
    uint8_t id[FG_ID_BYTES];
    struct fg_buf value;
    enum fg_code code;
    bool found;

    fg_buf_init(&value, 64);
    code = fg_store_get(store, HEAD_META, store_key, &value, &found, err);
    /* Never a new id for it: the head has profiles that the ring expects under the old one. */
    if (code == FG_OK && found && value.len != FG_ID_BYTES)
        code = fg_fail(err, FG_E_CORRUPT, "head: its id cannot be read");
    if (code == FG_OK && found)
        memcpy(id, value.ptr, FG_ID_BYTES);
    if (code == FG_OK && !found)
        code = make_store_id(store, id, err);
    fg_buf_done(&value);
    if (code == FG_OK)
        *ret_id = fg_id_get(id);
    return code;
}

enum fg_code ing_member_check_store(const struct ing_member *member, struct fg_slice store,
                                    struct fg_err *err)
{
    /* A call that names no store can only be meant for a single ingester. */
    bool meant = store.len == 0
                     ? member->watch == NULL
                     : store.len == FG_ID_BYTES && fg_id_eq(fg_id_get(store.ptr), member->store);

    if (meant)
        return FG_OK;
    return fg_fail(err, FG_E_PRECONDITION, "the request is for another store: read the ring again");
}

enum fg_code ing_member_admits(const struct ing_member *member, uint64_t revision,
                               struct fg_err *err)
{
    if (member->watch == NULL)
        return FG_OK;
    /* PRECONDITION: the distributor reads the ring and sends again (stale-ring-reject). ABORTED: it
     * sends the same again, since this ingester is the late one. */
    switch (fg_ring_watch_admits(member->watch, revision)) {
    case FG_RING_ADMITS:
        return FG_OK;
    case FG_RING_ADMITS_NOT_OLDER:
        return fg_fail(err, FG_E_PRECONDITION, "this ingester has ring revision %llu, not %llu",
                       (unsigned long long)ing_member_revision(member),
                       (unsigned long long)revision);
    case FG_RING_ADMITS_NOT_YET:
        /* Read the ring now rather than at the next poll: the distributor waits. */
        fg_ring_watch_look(member->watch, revision);
        return fg_fail(err, FG_E_ABORTED, "this ingester has not loaded ring revision %llu yet",
                       (unsigned long long)revision);
    case FG_RING_ADMITS_NOTHING:
        break;
    }
    return fg_fail(err, FG_E_UNAVAILABLE, "this ingester is not a member of the ring");
}

uint64_t ing_member_revision(const struct ing_member *member)
{
    return member->watch == NULL ? 0 : fg_ring_watch_revision(member->watch);
}
