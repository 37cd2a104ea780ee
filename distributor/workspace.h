/*
 * Memory of decoders: an upload takes a workspace for as long as it is decoded.
 *
 * Thread: take and give from any; between them it is the taker's.
 */
#ifndef FG_DISTRIBUTOR_WORKSPACE_H
#define FG_DISTRIBUTOR_WORKSPACE_H

#include "common/base/arena.h"
#include "common/net/connect.h"
#include "common/net/inflate.h"

#include <pthread.h>

/* A body in a content coding, whose parts are compressed: so many can be needed at a time. */
enum { WORKSPACE_INFLATED = 3 };

/*
 * Memory of a decoder, kept from upload to upload: as many as there are workers. What an interface
 * puts there lives until the upload is decoded, or until dist_workspace_next().
 */
struct dist_workspace {
    uint64_t max_bytes;     /* of all of it: what is inflated leaves less to the arena */
    struct fg_arena *arena; /* of the upload; what was made before dist_workspace_keep() stays */
    struct fg_arena_mark mark;
    struct fg_buf inflated[WORKSPACE_INFLATED];
    unsigned n_inflated, n_kept; /* in use; of those, of the upload */
    struct fg_buf wire;          /* dist_upload_add()'s */
    struct dist_workspace *next;
};

/* What was made so far is the upload's; and before each of its profiles: what the one before it
 * made is forgotten. */
void dist_workspace_keep(struct dist_workspace *space);
void dist_workspace_next(struct dist_workspace *space);

/*
 * Worker: what `body` is when it is decompressed, if it is compressed at all; borrowed or in the
 * workspace. FG_E_TOO_LARGE: more than max_bytes, or than the workspace has left; FG_E_DECODE.
 */
enum fg_code dist_workspace_inflate(struct dist_workspace *space, enum fg_coding coding,
                                    uint64_t max_bytes, struct fg_slice *body,
                                    struct fg_err *err) fg_must_check;

/* The same of a call's message, without its frame. */
enum fg_code dist_workspace_message(struct dist_workspace *space,
                                    const struct fg_connect_call *call, uint64_t max_bytes,
                                    struct fg_slice *ret_message, struct fg_err *err) fg_must_check;

/* The workspaces of a distributor: at most one for each worker. */
struct dist_workspaces {
    uint64_t max_bytes;   /* of each */
    pthread_mutex_t lock; /* of the list */
    struct dist_workspace *free;
};

void dist_workspaces_init(struct dist_workspaces *workspaces, uint64_t max_bytes);
/* Frees the workspaces. Every workspace that was taken has been given back. */
void dist_workspaces_done(struct dist_workspaces *workspaces);

/* Returns a free workspace, or creates one. The caller gives it back. */
struct dist_workspace *dist_workspace_take(struct dist_workspaces *workspaces);
/* Resets the workspace, frees buffers above 1 MiB, and returns it to the list. */
void dist_workspace_give(struct dist_workspaces *workspaces, struct dist_workspace *space);

#endif
