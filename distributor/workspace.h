/*
 * Memory for decoding. An upload takes a workspace for the time of its decoding and gives it back,
 * so that buffers are reused.
 *
 * Thread: take and give from any thread; in between the workspace belongs to the caller.
 */
#ifndef FG_DISTRIBUTOR_WORKSPACE_H
#define FG_DISTRIBUTOR_WORKSPACE_H

#include "common/base/arena.h"
#include "common/net/connect.h"
#include "common/net/inflate.h"

#include <pthread.h>

/* Buffers for a body in a content coding whose parts are compressed, too. */
enum { WORKSPACE_INFLATED = 3 };

/*
 * Memory of one decoder. Memory that an interface allocates from it lives until the upload is
 * decoded, or until dist_workspace_next().
 */
struct dist_workspace {
    uint64_t max_bytes; /* of arena and buffers together: inflated bytes leave less to the arena */
    struct fg_arena *arena; /* dist_workspace_next() releases it up to the mark */
    struct fg_arena_mark mark;
    struct fg_buf inflated[WORKSPACE_INFLATED];
    unsigned n_inflated, n_kept; /* in use; kept by dist_workspace_keep() */
    struct fg_buf wire;          /* dist_upload_add()'s */
    uint64_t vain_bytes;         /* decompressed of what was too large, or could not be read */
    struct dist_workspace *next;
};

/* Keeps what was allocated so far until the end of the upload. */
void dist_workspace_keep(struct dist_workspace *space);
/* Frees what was allocated since dist_workspace_keep(): before each profile of an upload. */
void dist_workspace_next(struct dist_workspace *space);

/*
 * Decompresses *body in place: afterwards it is in the workspace, or unchanged if coding is
 * IDENTITY. FG_E_TOO_LARGE: more than max_bytes, or than the workspace has left. FG_E_DECODE.
 */
enum fg_code dist_workspace_inflate(struct dist_workspace *space, enum fg_coding coding,
                                    uint64_t max_bytes, struct fg_slice *body,
                                    struct fg_err *err) fg_must_check;

/* Does the same with the message of a call, without its frame. */
enum fg_code dist_workspace_message(struct dist_workspace *space,
                                    const struct fg_connect_call *call, uint64_t max_bytes,
                                    struct fg_slice *ret_message, struct fg_err *err) fg_must_check;

/* The workspaces of a distributor: at most one for each worker. */
struct dist_workspaces {
    uint64_t max_bytes;   /* of each */
    pthread_mutex_t lock; /* of the list */
    struct dist_workspace *free;
};

/* Initializes an empty pool. max_bytes: memory of each workspace. */
void dist_workspaces_init(struct dist_workspaces *workspaces, uint64_t max_bytes);
/* Frees the workspaces. Every workspace that was taken has been given back. */
void dist_workspaces_done(struct dist_workspaces *workspaces);

/* Returns a free workspace, or creates one. The caller gives it back. */
struct dist_workspace *dist_workspace_take(struct dist_workspaces *workspaces);
/* Resets the workspace, frees buffers above 1 MiB, and returns it to the list. */
void dist_workspace_give(struct dist_workspaces *workspaces, struct dist_workspace *space);

#endif
