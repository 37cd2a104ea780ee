/*
 * The recording rules of a tenant. They are one object in the bucket, tenants/<tenant>/rules, a
 * settings.v1.ListRecordingRulesResponse (common/storage/bucket/message_object.h), in the order in
 * which they were created.
 *
 * Thread: any that may wait for the bucket. Memory: the arena of the caller.
 * Errors: those of tenant_object.h. FG_E_UNIMPLEMENTED: there is no bucket.
 */
#ifndef FG_QUERIER_RULES_RULE_STORE_H
#define FG_QUERIER_RULES_RULE_STORE_H

#include "common/base/arena.h"
#include "common/storage/bucket/bucket.h"
#include "proto/settings_v1.pb-c.h"

struct qry_rule_store {
    struct fg_bucket *bucket; /* NULL: there is none */
    struct fg_slice tenant;
    struct fg_arena *arena;
    size_t rules_max; /* that a tenant may have */
    int64_t deadline_mono_ns;
};

/* Lists the rules. */
enum fg_code qry_rule_store_list(const struct qry_rule_store *store,
                                 Settings__V1__ListRecordingRulesResponse **ret_rules,
                                 struct fg_err *err) fg_must_check;

/* Finds a rule. FG_E_NOT_FOUND. */
enum fg_code qry_rule_store_get(const struct qry_rule_store *store, const char *id,
                                Settings__V1__RecordingRule **ret_rule,
                                struct fg_err *err) fg_must_check;

/*
 * Adds a rule, or replaces the one of its id, if rule->generation is the stored one. Sets
 * rule->generation to that of what is stored now: 1 if it is new, else one more. A change that was
 * made already, by a request whose answer was lost, succeeds again and changes nothing.
 * FG_E_EXISTS: it is another generation. FG_E_LIMIT: there are too many rules.
 */
enum fg_code qry_rule_store_put(const struct qry_rule_store *store,
                                Settings__V1__RecordingRule *rule,
                                struct fg_err *err) fg_must_check;

/* Adds a rule whose id was made of its content (rule.h), unless it is there. If a rule that was
 * changed since has the id, writes another one to rule->id. FG_E_LIMIT as above. */
enum fg_code qry_rule_store_create(const struct qry_rule_store *store,
                                   Settings__V1__RecordingRule *rule,
                                   struct fg_err *err) fg_must_check;

/* Deletes a rule. FG_E_NOT_FOUND. */
enum fg_code qry_rule_store_delete(const struct qry_rule_store *store, const char *id,
                                   struct fg_err *err) fg_must_check;

#endif
