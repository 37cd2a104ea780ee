/*
 * Patterns of relabelling rules, and templates that expand to the groups of a match, with the
 * syntax of Go's regexp package: $1, ${1}, $name, ${name}, $$.
 *
 * Most patterns are a word or a prefix ("godeltaprof_(.*)"). Such plain patterns are compared
 * bytewise, which takes nanoseconds; all others are regular expressions (regex.h). A pattern always
 * matches whole texts.
 *
 * Thread: any number of threads may match and expand at once. Memory: slices live in the arena of
 * the init call.
 */
#ifndef FG_COMMON_MODEL_PATTERN_H
#define FG_COMMON_MODEL_PATTERN_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/model/regex.h"

struct fg_pattern {
    struct fg_regex *regex; /* NULL: the pattern is plain, as follows */
    struct fg_slice start;  /* what the text begins with */
    bool open;              /* something may follow: .* or .+ */
    size_t rest_min;        /* bytes that have to follow */
    bool rest_is_group;     /* what follows is group 1 */
};

/* Compiles a pattern. FG_E_INVALID names the fault; FG_E_LIMIT: the arena is full. */
enum fg_code fg_pattern_init(struct fg_pattern *pattern, struct fg_slice text,
                             struct fg_arena *arena, struct fg_err *err) fg_must_check;

/* Frees the regular expression. Accepts a zeroed pattern. */
void fg_pattern_done(struct fg_pattern *pattern);

/*
 * Returns whether the whole text matches, and the text of the groups 0..n-1 (0: the whole text).
 * Groups are parts of the text; a group that took no part is empty. n <= FG_REGEX_GROUPS_MAX; 0 is
 * fastest.
 */
bool fg_pattern_match(const struct fg_pattern *pattern, struct fg_slice text,
                      struct fg_slice *groups, size_t n);

/* Literal text, or a reference to a group. */
struct fg_template_part {
    struct fg_slice literal;
    size_t group; /* FG_TEMPLATE_LITERAL: the text */
};
enum { FG_TEMPLATE_LITERAL = FG_REGEX_GROUPS_MAX };

struct fg_template {
    struct fg_template_part *parts;
    size_t n_parts;
    size_t n_groups; /* groups that expanding needs: 0..n_groups-1 */
};

/*
 * Compiles a template. A reference to a group that the pattern does not have expands to nothing. A
 * $ that no name follows stands for itself. Names are ASCII letters, digits and _. FG_E_INVALID: a
 * group beyond FG_REGEX_GROUPS_MAX.
 */
enum fg_code fg_template_init(struct fg_template *template, struct fg_slice text,
                              const struct fg_pattern *pattern, struct fg_arena *arena,
                              struct fg_err *err) fg_must_check;

/* Expands a template with template->n_groups groups. The result is in the arena or is one of the
 * groups. ptr is NULL at the limit of the arena. */
struct fg_slice fg_template_expand(const struct fg_template *template,
                                   const struct fg_slice *groups,
                                   struct fg_arena *arena) fg_must_check;

#endif
