/* Helpers for implementations of the bucket, in this folder and elsewhere. */
#ifndef FG_COMMON_STORAGE_BUCKET_IMPL_H
#define FG_COMMON_STORAGE_BUCKET_IMPL_H

#include "common/storage/bucket/bucket.h"

extern const char *const fg_bucket_verb_names[FG_BUCKET_VERBS]; /* "get" */

/* Sets code and sentence, "get NAME: …". Returns the code. */
enum fg_code fg_bucket_fail(struct fg_bucket_request *request, enum fg_code code, const char *fmt,
                            ...) fg_printf(3, 4);
/* Does the same with an error that does not name verb and object. */
enum fg_code fg_bucket_fail_err(struct fg_bucket_request *request, const struct fg_err *err);

/* Moves the result of a request to an inner bucket, with its memory, to the request of the outer
 * bucket. */
void fg_bucket_take_answer(struct fg_bucket_request *outer, struct fg_bucket_request *inner);

/* Fails with FG_E_CANCELED or FG_E_DEADLINE if the request was cancelled or is late. */
enum fg_code fg_bucket_check(struct fg_bucket_request *request, int64_t now_mono_ns) fg_must_check;

/* Calls done(), here or on the request's loop. Do not use the request afterwards. */
void fg_bucket_finish(struct fg_bucket_request *request);

/* Returns whether the condition allows the operation on an object with etag `there` (NULL: no
 * object). If not, sets the result: FG_E_PRECONDITION, FG_E_NOT_FOUND, or `unchanged`. */
bool fg_bucket_may(struct fg_bucket_request *request,
                   const struct fg_bucket_etag *there) fg_must_check;

/* Returns whether both etags are the same. */
static inline bool fg_bucket_etag_eq(const struct fg_bucket_etag *a, const struct fg_bucket_etag *b)
{
    return fg_slice_eq(fg_cstr(a->text), fg_cstr(b->text));
}

/* --- pages of a list --- */

enum fg_bucket_listed {
    FG_BUCKET_ADDED,   /* an object: size and time are to be filled in */
    FG_BUCKET_FOLDED,  /* is part of a folder of the page */
    FG_BUCKET_SKIPPED, /* not of this page */
    FG_BUCKET_FULL,    /* the page is complete, and there is more */
};

/* Adds the next object's name, in byte order, to the page if it belongs there. Sets *ret_entry with
 * FG_BUCKET_ADDED. */
enum fg_bucket_listed fg_bucket_list_take(struct fg_bucket_request *request, struct fg_slice name,
                                          struct fg_bucket_entry **ret_entry);

/* Returns whether a name that begins with `folder`, which ends with '/', may belong to this page.
 */
bool fg_bucket_list_wants(const struct fg_bucket_request *request, struct fg_slice folder);

/* Add an entry, or set `next`, as the store returned it. The texts are copied. */
struct fg_bucket_entry *fg_bucket_list_add(struct fg_bucket_request *request, struct fg_slice name,
                                           bool folder);
void fg_bucket_list_next(struct fg_bucket_request *request, struct fg_slice next);

#endif
