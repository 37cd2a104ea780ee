/*
 * The object access/token-uses in a bucket (token_uses.h): what each process adds to it, and what
 * those who list tokens read.
 *
 * Thread: any that may wait for the bucket.
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_TOKEN_USES_OBJECT_H
#define FG_COMMON_ACCESS_REGISTRY_TOKEN_USES_OBJECT_H

#include "common/access/registry/token_uses.h"
#include "common/storage/bucket/bucket.h"

#define FG_TOKEN_USES_NAME "access/token-uses"

enum { FG_TOKEN_USES_ARENA_BYTES = 64 * 1024 * 1024 }; /* enough for some tries */

/* Writes the uses of this process that are new; without any it asks for nothing. registry: as of
 * fg_token_uses_merge(). Errors of fg_message_object_swap(). */
enum fg_code fg_token_uses_write(struct fg_token_uses *uses, struct fg_bucket *bucket,
                                 const struct fg_access_registry *registry, int64_t now_ms,
                                 int64_t deadline_mono_ns, struct fg_err *err) fg_must_check;

/* Reads those of all processes, with what this one did not write yet, into the arena. Errors of
 * fg_message_object_read(). */
enum fg_code fg_token_uses_read(struct fg_token_uses *uses, struct fg_bucket *bucket,
                                int64_t deadline_mono_ns, struct fg_arena *arena,
                                const Access__TokenUses **ret_uses,
                                struct fg_err *err) fg_must_check;

#endif
