/*
 * Regular expressions of label selectors: RE2 behind a C face, for it runs in time linear in the
 * text and in bounded memory whatever the pattern. Patterns match whole texts, and '.' matches a
 * line end too, as in Prometheus.
 *
 * Thread: matching is allowed from any number of threads at once.
 *
 * Read by C++ as well, so it includes none of our headers.
 */
#ifndef FG_COMMON_PROFILE_REGEX_H
#define FG_COMMON_PROFILE_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FG_REGEX_PATTERN_MAX_BYTES = 4096,   /* people write less than 200 */
    FG_REGEX_MEMORY_MAX_BYTES = 8 << 20, /* program and state cache; RE2's own default */
};

struct fg_regex;

/* NULL when the pattern is no good; error (error_max > 0 bytes, NUL-terminated) then says why. */
struct fg_regex *fg_regex_create(const void *pattern, size_t len, char *error, size_t error_max);

/* Accepts NULL. */
void fg_regex_destroy(struct fg_regex *regex);

/* The whole text matches. */
bool fg_regex_matches(const struct fg_regex *regex, const void *text, size_t len);

#ifdef __cplusplus
}
#endif

#endif
