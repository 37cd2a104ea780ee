/*
 * Whose limit a refusal with FG_E_LIMIT is of. A sender that has profiles of several tenants lets
 * those of one tenant wait, or all of them.
 */
#ifndef FG_COMMON_MODEL_LIMIT_OF_H
#define FG_COMMON_MODEL_LIMIT_OF_H

/* The numbers are those of proto/inner.proto and proto/forward_v1.proto, and never change. */
enum fg_limit_of {
    FG_LIMIT_OF_UNSAID, /* an older program does not say, or the limit is neither's alone */
    FG_LIMIT_OF_TENANT, /* what other tenants send is taken all the same */
    FG_LIMIT_OF_SERVER, /* it has too much to do for all tenants; that passes soon */
};

/* Returns whose limit a number from another program names; one of a newer program is unsaid. */
static inline enum fg_limit_of fg_limit_of_number(unsigned number)
{
    return number <= FG_LIMIT_OF_SERVER ? (enum fg_limit_of)number : FG_LIMIT_OF_UNSAID;
}

#endif
