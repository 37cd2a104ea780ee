/*
 * A recording rule: which profiles make a metric, and how. Checks a rule that a client sends, and
 * reads one that is stored, by the same code (querier/API.md#recording-rules).
 *
 * Pure. Thread: any. Memory: the arena of the caller, except for the regular expression, which
 * qry_rule_done() frees.
 */
#ifndef FG_QUERIER_RULES_RULE_H
#define FG_QUERIER_RULES_RULE_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/model/labels.h"
#include "common/model/regex.h"
#include "proto/settings_v1.pb-c.h"

enum {
    RULE_MAX_BYTES = 16 * 1024, /* of the whole message */
    RULE_MATCHERS_MAX = 32,     /* of labels; those of group_by are added to them */
    RULE_LABELS_MAX = 16,       /* of group_by, and of external_labels */
    RULE_NAMES_MAX = 100,       /* of functions */
    RULE_TOP_MAX = 100,
    RULE_ID_LETTERS = 10, /* of an id that we make */
    RULE_ID_MAX_BYTES = 64,
};

/* Labels that we add to series. */
#define RULE_LABEL_ID       "rule_id"
#define RULE_LABEL_FUNCTION "function"           /* of the greatest functions */
#define RULE_LABEL_OVERFLOW "flamegrid_overflow" /* "true": what exceeds the budget of series */

enum qry_rule_kind {
    QRY_RULE_ALL,       /* the value of all stacks */
    QRY_RULE_FUNCTIONS, /* of stacks with, or that end in, some functions */
    QRY_RULE_TOP,       /* of each of the greatest functions */
};

struct qry_rule {
    const Settings__V1__RecordingRule *message; /* borrowed */
    enum qry_rule_kind kind;
    bool self;  /* of functions: what they do themselves; false: with what they call */
    bool share; /* of the value of all stacks, instead of a rate */
    /* Profiles of this type are moments, as of memory in use, and not what happened since the last
     * profile. Such values are not divided by time. */
    bool instant;
    struct fg_profile_type type;
    const char *type_id;  /* its five parts */
    const char *selector; /* {a="b"}: all matchers but that of the type */
    char *const *names;   /* of functions */
    size_t n_names;
    struct fg_regex *regex; /* of functions; NULL: by name */
    size_t n_top;
};

/* Checks and reads a rule. FG_E_INVALID: all that is wrong with it, a line each. FG_E_LIMIT: the
 * arena is full. */
enum fg_code qry_rule_read(const Settings__V1__RecordingRule *message, struct fg_arena *arena,
                           struct qry_rule *ret_rule, struct fg_err *err) fg_must_check;

/* Frees the regular expression. Accepts a zeroed rule. */
void qry_rule_done(struct qry_rule *rule);

/* Returns whether a function is one of those that a rule of functions means. */
bool qry_rule_means(const struct qry_rule *rule, struct fg_slice function);

/* Returns a hash of all of a rule but its id and generation. */
struct fg_id qry_rule_content(const Settings__V1__RecordingRule *rule);

/* Makes an id of a rule's content. If it is taken by a rule that has become another one, there are
 * further attempts. */
void qry_rule_make_id(struct fg_id content, uint64_t attempt, char id[RULE_ID_LETTERS + 1]);

/* Makes the rule of a request, which it borrows: trims the metric name; an empty id becomes ten
 * letters that follow from the content, so that a request that is sent again means the same rule,
 * and generation 1. FG_E_INVALID as of qry_rule_read(), after "invalid request: ".
 * FG_E_LIMIT. */
enum fg_code qry_rule_of_request(const Settings__V1__UpsertRecordingRuleRequest *request,
                                 struct fg_arena *arena, Settings__V1__RecordingRule *ret_message,
                                 struct fg_err *err) fg_must_check;

#endif
