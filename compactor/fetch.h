/*
 * Fetches objects of the bucket into the scratch folder. A fetched object is a file without a name,
 * so nothing of it is left when the process dies; a block that is being written has a name until it
 * is uploaded.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMPACTOR_FETCH_H
#define FG_COMPACTOR_FETCH_H

#include "common/storage/block/writer.h"
#include "compactor/env.h"
#include "compactor/merge/source.h"

/* The part of an object that belongs to one tenant, mapped into memory, with its directory. */
struct cmp_fetched {
    struct cmp_merge_source source; /* its name is borrowed */
    struct fg_arena *arena;
    struct fg_block_directory directory;
    void *map;
    size_t map_len;
};

/* Where an object's directory is, according to the manifest. */
struct cmp_fetch_place {
    const char *name;
    uint64_t bytes, directory_offset, directory_bytes;
};

/*
 * Fetches what the tenant has in an object. Release it with cmp_fetched_done(). FG_E_NOT_FOUND: the
 * object was deleted. FG_E_NO_SPACE: the scratch folder is full. FG_E_CORRUPT: the object differs
 * from what the manifest says. Errors of the bucket.
 */
enum fg_code cmp_fetch(struct cmp_env *env, const struct cmp_fetch_place *place,
                       struct fg_slice tenant, struct cmp_fetched *ret_fetched,
                       struct fg_err *err) fg_must_check;
/* Unmaps it and frees its space. Accepts a zeroed one. */
void cmp_fetched_done(struct cmp_fetched *fetched);

/* Fetches a range of an object: the source has bytes and offset but no parts. name: borrowed until
 * done. Errors as above. */
enum fg_code cmp_fetch_mapped(struct cmp_env *env, const char *name, struct fg_block_range range,
                              struct cmp_fetched *ret_fetched, struct fg_err *err) fg_must_check;

/* Fetches only the directory, into the arena. Errors as above. */
enum fg_code cmp_fetch_directory(struct cmp_env *env, const struct cmp_fetch_place *place,
                                 struct fg_arena *arena, struct fg_block_directory *ret_directory,
                                 struct fg_err *err) fg_must_check;

/* Fetches exactly range.len bytes of an object into memory. Initialises body, which the caller
 * frees. FG_E_CORRUPT: the object is shorter. */
enum fg_code cmp_fetch_range(struct cmp_env *env, const char *name, struct fg_block_range range,
                             struct fg_buf *body, struct fg_err *err) fg_must_check;

/* Creates the scratch folder and removes the files of a process that died. FG_E_UNAVAILABLE,
 * FG_E_DENIED. */
enum fg_code cmp_fetch_prepare(struct cmp_env *env, struct fg_err *err) fg_must_check;

#endif
