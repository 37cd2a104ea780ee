#include "ingester/head_mode.h"

#include "common/runtime/log.h"
#include "ingester/keys.h"

enum { ARENA_MAX_BYTES = 512 * 1024 * 1024 }; /* for a copy of all chunks */

static const struct fg_slice agent_key = {(const uint8_t *)"agent", 5};

static enum fg_code list_chunks(struct ing_head_chunks *chunks, struct fg_arena *arena,
                                struct ing_head_chunk **ret_list, size_t *ret_n, struct fg_err *err)
{
    return ing_head_chunks_select(chunks, &ing_head_chunks_all, arena, ret_list, ret_n, err);
}

static enum fg_code become_agent(struct fg_store *store, struct ing_head_chunks *chunks,
                                 struct fg_arena *arena, struct fg_err *err)
{
    struct fg_store_batch batch;
    struct ing_head_chunk *list;
    uint64_t profiles = 0;
    enum fg_code code;
    size_t n;

    if (list_chunks(chunks, arena, &list, &n, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n; i++)
        profiles += list[i].state == CHUNK_COMMITTED ? 0 : list[i].count;
    if (profiles > 0 || ing_head_chunks_has_nameless(chunks))
        return fg_fail(err, FG_E_PRECONDITION,
                       "it was a server's and has %llu profiles that are in no block yet, which an "
                       "agent would delete. Either start flamegrid server on this folder, have it "
                       "commit them (POST /ingester/flush at its admin_listen) and stop it, or "
                       "give the agent a folder of its own (setting data)",
                       (unsigned long long)profiles);
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_META, agent_key, fg_bytes(NULL, 0));
    code = fg_store_write(store, &batch, err);
    fg_store_batch_done(&batch);
    return code;
}

static enum fg_code become_server(struct fg_store *store, struct ing_head_chunks *chunks,
                                  struct fg_arena *arena, struct fg_err *err)
{
    struct fg_store_batch batch;
    struct ing_head_chunk *list;
    uint64_t profiles = 0;
    enum fg_code code;
    size_t n;

    if (list_chunks(chunks, arena, &list, &n, err) != FG_OK)
        return err->code;
    fg_store_batch_init(&batch);
    for (size_t i = 0; i < n; i++) {
        /* Also committed ones: nothing of an agent is in a segment, except what a server before it
         * has committed. The comparison tells which is which. */
        list[i].state = CHUNK_UNCHECKED;
        profiles += list[i].count;
        ing_head_chunk_put(&list[i], &batch);
    }
    fg_store_delete(&batch, HEAD_META, agent_key);
    code = fg_store_write(store, &batch, err);
    fg_store_batch_done(&batch);
    if (code != FG_OK)
        return code;
    for (size_t i = 0; i < n; i++) {
        /* As if they had been read so: no chunk of a run is unchecked after it was committed. */
        ing_head_chunks_remove(chunks, &list[i].key);
        ing_head_chunks_set(chunks, &list[i]);
    }
    fg_log_info("the head was an agent's: what it still has goes into segments, too",
                fg_lu("profiles", profiles));
    return FG_OK;
}

enum fg_code ing_head_mode_set(struct fg_store *store, struct ing_head_chunks *chunks, bool agent,
                               struct fg_err *err)
{
    struct fg_arena *arena;
    struct fg_buf value;
    enum fg_code code;
    bool was_agent;

    fg_buf_init(&value, 1);
    code = fg_store_get(store, HEAD_META, agent_key, &value, &was_agent, err);
    fg_buf_done(&value);
    if (code != FG_OK || was_agent == agent)
        return code;
    arena = fg_arena_create(ARENA_MAX_BYTES);
    code =
        agent ? become_agent(store, chunks, arena, err) : become_server(store, chunks, arena, err);
    fg_arena_destroy(arena);
    return code == FG_OK ? FG_OK : fg_wrap(err, "head");
}
