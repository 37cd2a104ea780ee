/*
 * Regular expressions of label selectors and relabelling rules: RE2 behind a C face, for it runs in
 * time linear in the text and in bounded memory whatever the pattern. Patterns match whole texts,
 * and '.' matches a line end too, as in Prometheus.
 *
 * Thread: matching is allowed from any number of threads at once.
 *
 * Read by C++ as well, so it includes none of our headers.
 */
#ifndef FG_COMMON_MODEL_REGEX_H
#define FG_COMMON_MODEL_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FG_REGEX_PATTERN_MAX_BYTES = 4096,   /* people write less than 200 */
    FG_REGEX_MEMORY_MAX_BYTES = 8 << 20, /* program and state cache; RE2's own default */
    FG_REGEX_GROUPS_MAX = 64,            /* the whole text and 63 groups can be asked for */
};

struct fg_regex;

/* NULL when the pattern is no good; error (error_max > 0 bytes, NUL-terminated) then says why. */
struct fg_regex *fg_regex_create(const void *pattern, size_t len, char *error, size_t error_max);

/* Accepts NULL. */
void fg_regex_destroy(struct fg_regex *regex);

/* The whole text matches. */
bool fg_regex_matches(const struct fg_regex *regex, const void *text, size_t len);

/* What a group matched: a part of the text; ptr NULL when the group took no part. */
struct fg_regex_group {
    const void *ptr;
    size_t len;
};

/*
 * The same, and what the groups 0..n-1 matched; 0 is the whole, groups there are not took no part.
 * n <= FG_REGEX_GROUPS_MAX. Costs more than a bare match.
 */
bool fg_regex_groups(const struct fg_regex *regex, const void *text, size_t len,
                     struct fg_regex_group *groups, size_t n);

/* How many groups there are, besides the whole. */
size_t fg_regex_group_count(const struct fg_regex *regex);

/* The number of the group (?P<name>...), 0 when there is none. */
size_t fg_regex_group_number(const struct fg_regex *regex, const void *name, size_t len);

#ifdef __cplusplus
}
#endif

#endif
