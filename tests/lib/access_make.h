/* A registry of access and its tokens, made of a few words. Calls that must not fail are asserted.
 */
#ifndef FG_TESTS_LIB_ACCESS_MAKE_H
#define FG_TESTS_LIB_ACCESS_MAKE_H

#include "common/access/registry/registry.h"

struct access_make {
    Access__Registry message;
    struct fg_access_change change; /* of the message, by "test", at now_ms */
};

/* What a token is made of; what is not said is "", 0, and the name "test". */
struct access_token {
    const char *tenants; /* "a,b" */
    unsigned scopes;
    const char *name, *matchers;
    int64_t not_before_ms, expires_ms;
    uint32_t seed; /* of its secret; tokens of different seeds have different ids */
};

/* Makes an empty registry. arena is borrowed, and has the message. */
void access_make_init(struct access_make *make, struct fg_arena *arena, int64_t now_ms);

/* Adds a tenant in a state. */
void access_make_tenant(struct access_make *make, const char *id, Access__Tenant__State state);

/* Returns the id, secret and hash that a seed stands for. */
struct fg_token access_make_secret(uint32_t seed, const char *id,
                                   char ret_text[FG_TOKEN_CHARS + 1]);

/* Adds a token; its text. */
void access_make_token(struct access_make *make, const struct access_token *token,
                       char ret_text[FG_TOKEN_CHARS + 1]);

/* Writes the message as the object in the bucket has it, with its checksum. */
void access_make_object(const Access__Registry *message, struct fg_buf *out);

/* Makes what a process has in memory, in an arena of its own. */
struct fg_access_registry *access_make_registry(const Access__Registry *message);

#endif
