/* Implements `flamegrid audit verify`: checks the chains of the audit in a bucket. */
#ifndef FG_DEPLOY_CLI_AUDIT_VERIFY_H
#define FG_DEPLOY_CLI_AUDIT_VERIFY_H

#include "common/storage/bucket/bucket.h"

#include <stdio.h>

/*
 * Reads all objects of the audit and checks each chain, and what chains say of each other
 * (common/access/audit/audit_record.h). known: a file that an earlier run with json printed; its
 * heads have to be in the chains. NULL: none. To `out`: a line for each chain and each fault, or
 * one JSON document. FG_E_CORRUPT: there are faults. Any other failure: the bucket or the file
 * could not be read.
 */
enum fg_code cli_audit_verify(struct fg_bucket *bucket, const char *known, bool json, FILE *out,
                              struct fg_err *err) fg_must_check;

#endif
