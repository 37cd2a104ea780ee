/*
 * Finds records of the audit in the bucket, for GET /api/audit: those that are stored already, so
 * the newest are missing for up to audit.flush.
 *
 * Thread: a worker; waits for the bucket.
 */
#ifndef FG_COMMON_ACCESS_AUDIT_AUDIT_SEARCH_H
#define FG_COMMON_ACCESS_AUDIT_AUDIT_SEARCH_H

#include "common/access/audit/audit_record.h"
#include "common/storage/bucket/bucket.h"

enum {
    FG_AUDIT_SEARCH_MAX_DAYS = 31,
    FG_AUDIT_SEARCH_MAX_RECORDS = 10000,
    FG_AUDIT_SEARCH_NAMES_MAX = 20,
};

struct fg_audit_wanted {
    int64_t from_ms, to_ms; /* inclusive */
    struct fg_slice who;    /* a part of `who`, or the token or session; empty: anybody */
    struct fg_slice tenant; /* empty: any */
    struct fg_slice kind;   /* empty: any */
    size_t limit;           /* of records, at most FG_AUDIT_SEARCH_MAX_RECORDS */
    /* Returns whether the caller may see a record of that time about these tenants ("a|b"; empty:
     * none). */
    bool (*may_see)(void *arg, int64_t ms, struct fg_slice tenants);
    /* Returns whether nobody waits for the records any more. NULL: somebody does. */
    bool (*is_unwanted)(void *arg);
    void *arg;
};

struct fg_audit_found {
    const struct fg_slice *lines; /* sorted by time, chain and number; in the arena */
    size_t n;
    int64_t next_ms; /* more follow from this time on; 0: these are all */
    /* Objects that cannot be read, whose records are missing: all of them, and the names of the
     * first ones. */
    size_t n_unreadable;
    const char *unreadable[FG_AUDIT_SEARCH_NAMES_MAX];
};

/*
 * Finds records. Those of one millisecond stay together, so `n` may exceed the limit. FG_E_INVALID:
 * more than FG_AUDIT_SEARCH_MAX_DAYS. FG_E_LIMIT: the arena does not hold twice the limit. Uses up
 * to twice the arena's limit besides. FG_E_CANCELED: the search is unwanted, which it looks at
 * before each request to the bucket. Errors of the bucket.
 */
enum fg_code fg_audit_search(struct fg_bucket *bucket, const struct fg_audit_wanted *wanted,
                             int64_t deadline_mono_ns, struct fg_arena *arena,
                             struct fg_audit_found *ret_found, struct fg_err *err) fg_must_check;

/* Reads an object: its lines, in `lines`, which is initialised. FG_E_CORRUPT: it is damaged. */
enum fg_code fg_audit_read_object(struct fg_bucket *bucket, const char *name,
                                  int64_t deadline_mono_ns, struct fg_buf *lines,
                                  struct fg_err *err) fg_must_check;

#endif
