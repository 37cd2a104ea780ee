/* Reads and verifies the audit in a bucket, for tests. */
#ifndef FG_TESTS_LIB_AUDIT_LOOK_H
#define FG_TESTS_LIB_AUDIT_LOOK_H

#include "common/access/audit/audit_record.h"
#include "common/storage/bucket/bucket.h"

enum { AUDIT_LOOK_CHAINS_MAX = 8 };

struct audit_look {
    struct fg_audit_chain chains[AUDIT_LOOK_CHAINS_MAX];
    size_t n_chains, n_objects;
    struct fg_buf lines, faults;
};

void audit_look_init(struct audit_look *look);
void audit_look_done(struct audit_look *look);

/* Reads all objects, whose names sort as their numbers. Returns how often their lines have that
 * text, which is not empty. */
unsigned audit_look(struct audit_look *look, struct fg_bucket *bucket, const char *text);

/* Returns the faults that the last look found, a line each. */
const char *audit_look_faults(struct audit_look *look);

#endif
