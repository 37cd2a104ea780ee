/*
 * Patterns of relabelling rules and the templates that their groups are put into, as Go's regexp
 * package reads and expands them: $1, ${1}, $name, ${name}, $$.
 *
 * Most patterns are a word, or how words begin ("godeltaprof_(.*)"). Such plain ones are compared,
 * which takes nanoseconds; the others are regular expressions (regex.h). Either way a pattern
 * matches whole texts.
 *
 * Thread: matching and expanding from any number of threads at once. Memory: slices live in the
 * arena they were made with.
 */
#ifndef FG_COMMON_MODEL_PATTERN_H
#define FG_COMMON_MODEL_PATTERN_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/model/regex.h"

struct fg_pattern {
    struct fg_regex *regex; /* NULL: the pattern is plain, and this is all of it: */
    struct fg_slice start;  /* what the text begins with */
    bool open;              /* something may follow: .* or .+ */
    size_t rest_min;        /* bytes that have to follow */
    bool rest_is_group;     /* what follows is group 1 */
};

/* FG_E_INVALID with what is wrong; FG_E_LIMIT at the arena's end. */
enum fg_code fg_pattern_init(struct fg_pattern *pattern, struct fg_slice text,
                             struct fg_arena *arena, struct fg_err *err) fg_must_check;

/* A zeroed pattern is fine. */
void fg_pattern_done(struct fg_pattern *pattern);

/*
 * Does the whole text match, and what did the groups 0..n-1 (0: the whole) match? They are parts of
 * the text, empty where a group took no part. n <= FG_REGEX_GROUPS_MAX; 0 is fastest.
 */
bool fg_pattern_match(const struct fg_pattern *pattern, struct fg_slice text,
                      struct fg_slice *groups, size_t n);

/* Literal text, or what a group matched. */
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
 * References to groups that the pattern does not have stand for nothing, and a $ before anything
 * that is no name for itself. Names are letters, digits and _ of ASCII, as groups' names are.
 * FG_E_INVALID for a group beyond FG_REGEX_GROUPS_MAX.
 */
enum fg_code fg_template_init(struct fg_template *template, struct fg_slice text,
                              const struct fg_pattern *pattern, struct fg_arena *arena,
                              struct fg_err *err) fg_must_check;

/* groups: template->n_groups of them. In the arena, or one of the groups; ptr NULL at its limit. */
struct fg_slice fg_template_expand(const struct fg_template *template,
                                   const struct fg_slice *groups,
                                   struct fg_arena *arena) fg_must_check;

#endif
