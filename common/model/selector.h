/*
 * Label selectors, the PromQL series selector (querier/API.md#selectors):
 * metric{name="value",other=~"re.*"}. Regular expressions are RE2 (linear time, bounded memory),
 * fully anchored. A missing label counts as the empty value.
 */
#ifndef FG_COMMON_MODEL_SELECTOR_H
#define FG_COMMON_MODEL_SELECTOR_H

#include "common/model/labels.h"

enum {
    FG_SELECTOR_MAX_BYTES = 64 * 1024, /* dashboards send less than 2 KiB */
    FG_SELECTOR_MATCHERS_MAX = 64,     /* of one query; each is compared with every series */
};

enum fg_match_op { FG_MATCH_EQ, FG_MATCH_NE, FG_MATCH_RE, FG_MATCH_NRE };

struct fg_regex;

struct fg_matcher {
    enum fg_match_op op;
    struct fg_slice name, value;
    struct fg_regex *regex; /* RE and NRE */
};

/*
 * A regular expression may take a millisecond for a value, and there may be a million values. So
 * who selects among many asks `wanted` for each FG_SELECTOR_ASK_EVERY of them, and ends with its
 * error.
 */
enum { FG_SELECTOR_ASK_EVERY = 64 };

struct fg_selector {
    struct fg_matcher *matchers;
    size_t n_matchers;
    enum fg_code (*wanted)(void *arg, struct fg_err *err); /* is the answer still? NULL: it is */
    void *wanted_arg;
};

/* Asks, if it is the turn of *n_matched, which counts what was matched. */
fg_must_check static inline enum fg_code fg_selector_ask(const struct fg_selector *selector,
                                                         uint64_t *n_matched, struct fg_err *err)
{
    return ++*n_matched % FG_SELECTOR_ASK_EVERY != 0 || selector->wanted == NULL
               ? FG_OK
               : selector->wanted(selector->wanted_arg, err);
}

/*
 * Parses `text` and adds its matchers to the selector, so several selectors are combined with AND.
 * Slices live in the arena. FG_E_INVALID has the fault and its place: "1:3: parse error: unexpected
 * ...", line and byte from 1; nothing is added then. Empty text is an error; {} matches everything.
 */
enum fg_code fg_selector_parse(struct fg_slice text, struct fg_arena *arena,
                               struct fg_selector *selector, struct fg_err *err) fg_must_check;

/* Adds a matcher. FG_E_LIMIT: the arena is full. FG_E_INVALID: bad regular expression. */
enum fg_code fg_selector_add(struct fg_selector *selector, struct fg_arena *arena,
                             enum fg_match_op op, struct fg_slice name, struct fg_slice value,
                             struct fg_err *err) fg_must_check;

/* Frees the regular expressions; all else is in the arena. Accepts a zeroed selector. */
void fg_selector_done(struct fg_selector *selector);

/* Return whether a value or a label set matches. */
bool fg_matcher_matches(const struct fg_matcher *matcher, struct fg_slice value);
bool fg_selector_matches(const struct fg_selector *selector, const struct fg_labels *labels);

/* Returns false if the selector matches no series of the service. */
bool fg_selector_may_match_service(const struct fg_selector *selector, struct fg_slice service);

/* Writes the selector, {a="b",c=~"d"}, in a form that fg_selector_parse() reads back. */
void fg_selector_write(const struct fg_selector *selector, struct fg_buf *out);

#endif
