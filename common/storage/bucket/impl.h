/* What forms of the bucket share, wherever they are; nobody else includes it. */
#ifndef FG_COMMON_STORAGE_BUCKET_IMPL_H
#define FG_COMMON_STORAGE_BUCKET_IMPL_H

#include "common/storage/bucket/bucket.h"

extern const char *const fg_bucket_verb_names[FG_BUCKET_VERBS]; /* "get" */

/* Sets code and sentence, "get NAME: …"; returns the code. */
enum fg_code fg_bucket_fail(struct fg_bucket_request *request, enum fg_code code, const char *fmt,
                            ...) fg_printf(3, 4);
/* The same of an error that says nothing of verb and name yet. */
enum fg_code fg_bucket_fail_err(struct fg_bucket_request *request, const struct fg_err *err);

/* Moves the result of a request that went to another bucket, with its memory, to the one that it
 * was sent for. */
void fg_bucket_take_answer(struct fg_bucket_request *outer, struct fg_bucket_request *inner);

/* FG_E_CANCELED or FG_E_DEADLINE when it is time to give up. */
enum fg_code fg_bucket_check(struct fg_bucket_request *request, int64_t now_mono_ns) fg_must_check;

/* Calls done(), here or at home: the request is the caller's from now on. */
void fg_bucket_finish(struct fg_bucket_request *request);

/* Whether the condition lets the verb be done, given what is there: its etag, NULL for nothing.
 * Sets the result where it does not: FG_E_PRECONDITION, FG_E_NOT_FOUND, or `unchanged`. */
bool fg_bucket_may(struct fg_bucket_request *request,
                   const struct fg_bucket_etag *there) fg_must_check;

static inline bool fg_bucket_etag_eq(const struct fg_bucket_etag *a, const struct fg_bucket_etag *b)
{
    return fg_slice_eq(fg_cstr(a->text), fg_cstr(b->text));
}

/* --- pages of a list --- */

enum fg_bucket_listed {
    FG_BUCKET_ADDED,   /* an object: size and time are to be filled in */
    FG_BUCKET_FOLDED,  /* as a folder, or it is in one */
    FG_BUCKET_SKIPPED, /* not of this page */
    FG_BUCKET_FULL,    /* the page is complete, and there is more */
};

/* Takes the next object's name, in byte order. ret_entry is set with FG_BUCKET_ADDED. */
enum fg_bucket_listed fg_bucket_list_take(struct fg_bucket_request *request, struct fg_slice name,
                                          struct fg_bucket_entry **ret_entry);

/* Can anything that begins with `folder`, which ends with '/', be of this page? */
bool fg_bucket_list_wants(const struct fg_bucket_request *request, struct fg_slice folder);

/* Entries as a store gives them; the texts are copied. */
struct fg_bucket_entry *fg_bucket_list_add(struct fg_bucket_request *request, struct fg_slice name,
                                           bool folder);
void fg_bucket_list_next(struct fg_bucket_request *request, struct fg_slice next);

#endif
