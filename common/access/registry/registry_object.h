/*
 * The registry of access in a bucket: reads and changes it, for servers and for commands.
 *
 * Thread: any that may wait for the bucket.
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_REGISTRY_OBJECT_H
#define FG_COMMON_ACCESS_REGISTRY_REGISTRY_OBJECT_H

#include "common/access/registry/registry.h"
#include "common/storage/bucket/message_object.h"

/* Returns the object as message_object.h has it. bucket and deadline are not needed to decode. */
struct fg_message_object fg_access_object(struct fg_bucket *bucket, struct fg_arena *arena,
                                          int64_t deadline_mono_ns);

/* Reads the registry, with a reference; an empty one if there is none. FG_E_CORRUPT, errors of the
 * bucket. */
enum fg_code fg_access_read(struct fg_bucket *bucket, int64_t deadline_mono_ns,
                            struct fg_access_registry **ret_registry,
                            struct fg_err *err) fg_must_check;

/* Who changes the registry of a bucket. */
struct fg_access_writer {
    struct fg_bucket *bucket;
    const char *by;
    int64_t now_ms, deadline_mono_ns;
    /* The generation that the writer has read. A registry that is gone or older is not written: it
     * would end all tokens and keys that it lacks. 0: the writer has read none, and creates it if
     * there is none. */
    uint64_t known;
    bool bounded; /* of struct fg_access_change */
};

/* Changes the registry in a bucket: a function of this form, called with each version that is read
 * until one of its results could be stored. Errors: those of `edit`, of
 * fg_access_check_generation(), and of fg_message_object_swap(). Needs no `access`, so commands use
 * it, too. */
typedef enum fg_code (*fg_access_edit)(void *arg, const struct fg_access_change *change,
                                       struct fg_err *err);
enum fg_code fg_access_swap(const struct fg_access_writer *writer, fg_access_edit edit, void *arg,
                            struct fg_err *err) fg_must_check;

#endif
