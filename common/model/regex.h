/*
 * Regular expressions of label selectors and relabelling rules: a C interface to RE2, which runs in
 * time linear in the text and in bounded memory for every pattern. Patterns match whole texts, and
 * '.' also matches a line end, as in Prometheus.
 *
 * Thread: matching is allowed from any number of threads at once.
 *
 * C++ includes this header as well, so it includes no other header of the tree.
 */
#ifndef FG_COMMON_MODEL_REGEX_H
#define FG_COMMON_MODEL_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* People write less than 200, and dashboards the names of all pods that were chosen. As much as
     * a whole selector may have: what patterns cost to compile goes by their length together. */
    FG_REGEX_PATTERN_MAX_BYTES = 64 * 1024,
    FG_REGEX_MEMORY_MAX_BYTES = 8 << 20, /* program and state cache; RE2's own default */
    FG_REGEX_GROUPS_MAX = 64,            /* the whole text and 63 groups can be asked for */
};

struct fg_regex;

/* Compiles a pattern. Returns NULL if it is invalid; error (error_max > 0 bytes, NUL-terminated)
 * has the reason then. */
struct fg_regex *fg_regex_create(const void *pattern, size_t len, char *error, size_t error_max);

/* Frees a pattern. Accepts NULL. */
void fg_regex_destroy(struct fg_regex *regex);

/* Returns whether the whole text matches. */
bool fg_regex_matches(const struct fg_regex *regex, const void *text, size_t len);

/* The part of the text that a group matched. ptr is NULL if the group took no part. */
struct fg_regex_group {
    const void *ptr;
    size_t len;
};

/*
 * Returns whether the whole text matches, and the groups 0..n-1, where 0 is the whole text. Groups
 * that the pattern does not have took no part. n <= FG_REGEX_GROUPS_MAX. It costs more than
 * fg_regex_matches().
 */
bool fg_regex_groups(const struct fg_regex *regex, const void *text, size_t len,
                     struct fg_regex_group *groups, size_t n);

/* Returns the number of groups of the pattern. */
size_t fg_regex_group_count(const struct fg_regex *regex);

/* Returns the number of the group (?P<name>...), 0 if there is none. */
size_t fg_regex_group_number(const struct fg_regex *regex, const void *name, size_t len);

#ifdef __cplusplus
}
#endif

#endif
