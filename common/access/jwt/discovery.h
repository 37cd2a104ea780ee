/*
 * What an identity provider publishes about itself (OpenID Connect Discovery 1.0, RFC 8414), as a
 * value: where its keys are, and where people log in. Pure.
 */
#ifndef FG_COMMON_ACCESS_JWT_DISCOVERY_H
#define FG_COMMON_ACCESS_JWT_DISCOVERY_H

#include "common/base/arena.h"
#include "common/base/err.h"

enum {
    FG_DISCOVERY_MAX_BYTES = 64 * 1024,     /* providers publish 1 to 6 KiB */
    FG_DISCOVERY_ARENA_BYTES = 1024 * 1024, /* always enough for one document */
    FG_ACCESS_URL_MAX_BYTES = 2048,
};

#define FG_DISCOVERY_PATH "/.well-known/openid-configuration"

/* URLs, NUL-terminated; NULL: the provider has none. */
struct fg_discovery {
    const char *keys;          /* jwks_uri */
    const char *authorization; /* where people log in */
    const char *token;         /* where a code is exchanged */
    const char *end_session;   /* where people log out of the provider */
    const char *device;        /* where a device gets a code (RFC 8628) */
    /* The client secret is sent in the body: the provider does not take it in the header. */
    bool secret_in_body;
};

/* Returns NULL, or why requests must not be sent there ("is not https"). In the clear only a
 * loopback address may be called. */
const char *fg_access_url_fault(struct fg_slice url) fg_must_check;

/* Returns whether two URLs have the same scheme, host and port, as they are written. */
bool fg_access_url_same_origin(struct fg_slice a, struct fg_slice b);

/* Parses the document of an issuer. FG_E_DECODE: it is no such document, is another issuer's, or
 * has a URL that must not be called. FG_E_LIMIT: the arena is full. */
enum fg_code fg_discovery_parse(struct fg_slice text, const char *issuer, struct fg_arena *arena,
                                struct fg_discovery *ret_discovery,
                                struct fg_err *err) fg_must_check;

#endif
