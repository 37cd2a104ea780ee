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

struct distributor;

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

/* One that is free, or a new one; there are never more than workers. */
struct dist_workspace *dist_workspace_take(struct distributor *distributor);
void dist_workspace_give(struct distributor *distributor, struct dist_workspace *space);

/* Frees those of a distributor that ends. */
void dist_workspaces_free(struct distributor *distributor);

#endif
