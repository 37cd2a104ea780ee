/*
 * Objects on their way to and from the scratch folder. What is read is a file without a name, so
 * that nothing is left of it when the process dies; what is written has one until it is uploaded.
 *
 * Thread: one that may wait.
 */
#ifndef FG_COMPACTOR_FETCH_H
#define FG_COMPACTOR_FETCH_H

#include "common/storage/block/writer.h"
#include "compactor/env.h"
#include "compactor/merge/source.h"

/* What one tenant has in an object: its directory, and its parts mapped. */
struct cmp_fetched {
    struct cmp_merge_source source; /* its name is borrowed */
    struct fg_arena *arena;
    struct fg_block_directory directory;
    void *map;
    size_t map_len;
};

/* Where an object's directory is, as manifests say. */
struct cmp_fetch_place {
    const char *name;
    uint64_t bytes, directory_offset, directory_bytes;
};

/*
 * FG_E_NOT_FOUND: the object is not there any more. FG_E_NO_SPACE: no room in the scratch folder.
 * FG_E_CORRUPT: it is not what the manifest says. After an error there is nothing to be done with
 * `fetched`.
 */
enum fg_code cmp_fetch(struct cmp_env *env, const struct cmp_fetch_place *place,
                       struct fg_slice tenant, struct cmp_fetched *ret_fetched,
                       struct fg_err *err) fg_must_check;
void cmp_fetched_done(struct cmp_fetched *fetched); /* zeroed is fine */

/* A range of an object, mapped: its source has bytes and offset, and no parts. name is borrowed. */
enum fg_code cmp_fetch_mapped(struct cmp_env *env, const char *name, struct fg_block_range range,
                              struct cmp_fetched *ret_fetched, struct fg_err *err) fg_must_check;

/* The directory alone, in the arena. */
enum fg_code cmp_fetch_directory(struct cmp_env *env, const struct cmp_fetch_place *place,
                                 struct fg_arena *arena, struct fg_block_directory *ret_directory,
                                 struct fg_err *err) fg_must_check;

/* Bytes [offset, offset + len) of an object: exactly so many. body is initialised by this. */
enum fg_code cmp_fetch_range(struct cmp_env *env, const char *name, struct fg_block_range range,
                             struct fg_buf *body, struct fg_err *err) fg_must_check;

/* Makes the scratch folder, and empties it: what is there is of a process that died. */
enum fg_code cmp_fetch_prepare(struct cmp_env *env, struct fg_err *err) fg_must_check;

#endif
