#include "common/access/jwt/discovery.h"

#include "common/access/jwt/claims.h"
#include "common/base/str.h"

/* ---- URLs ---- */

/* Scheme and authority, up to the path: "https://host:port". */
static struct fg_slice origin_of(struct fg_slice url)
{
    size_t at = fg_slice_search(url, "://");

    if (at == SIZE_MAX)
        return fg_bytes(NULL, 0);
    for (at += 3; at < url.len; at++)
        if (url.ptr[at] == '/' || url.ptr[at] == '?' || url.ptr[at] == '#')
            break;
    return fg_slice_sub(url, 0, at);
}

static bool is_loopback(struct fg_slice authority)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < FG_COUNT(hosts); i++) {
        struct fg_slice rest = fg_slice_sub(authority, strlen(hosts[i]), authority.len);

        if (fg_slice_starts(authority, hosts[i]) && (rest.len == 0 || rest.ptr[0] == ':'))
            return true;
    }
    return false;
}

const char *fg_access_url_fault(struct fg_slice url)
{
    struct fg_slice origin = origin_of(url), authority;
    bool secure = fg_slice_starts(url, "https://");

    if (url.len > FG_ACCESS_URL_MAX_BYTES)
        return "is longer than 2048 bytes";
    for (size_t i = 0; i < url.len; i++)
        if (url.ptr[i] <= ' ' || url.ptr[i] >= 0x7f || url.ptr[i] == '\\' || url.ptr[i] == '"')
            return "has a character that no URL has";
    if (!secure && !fg_slice_starts(url, "http://"))
        return "is not https";
    authority = fg_slice_sub(origin, secure ? 8 : 7, origin.len);
    if (authority.len == 0 || authority.ptr[0] == ':')
        return "has no host";
    if (fg_slice_find(authority, '@') != SIZE_MAX)
        return "has a user name";
    if (fg_slice_find(url, '#') != SIZE_MAX)
        return "has a fragment";
    if (!secure && !is_loopback(authority))
        return "is not https, which only a loopback address may be";
    return NULL;
}

bool fg_access_url_same_origin(struct fg_slice a, struct fg_slice b)
{
    struct fg_slice origin = origin_of(a);

    return origin.ptr != NULL && fg_slice_eq_nocase(origin, origin_of(b));
}

/* ---- the document ---- */

struct document {
    struct fg_slice text;
    struct fg_arena *arena;
    struct fg_err *err; /* the first fault; code FG_OK: none yet */
};

/* A member that is a URL; NULL: there is none, or a fault. */
static const char *take_url(struct document *document, const char *name)
{
    struct fg_slice url;
    enum fg_claim_found found = fg_claim_text(document->text, name, document->arena, &url);
    const char *fault = found == FG_CLAIM_FOUND ? fg_access_url_fault(url) : "is no text";
    const char *copy;

    if (found == FG_CLAIM_ABSENT || document->err->code != FG_OK)
        return NULL;
    if (fault != NULL) {
        (void)fg_fail(document->err, FG_E_DECODE, "%s %s", name, fault);
        return NULL;
    }
    copy = fg_arena_text(document->arena, url);
    if (copy == NULL)
        (void)fg_fail(document->err, FG_E_LIMIT, "the document needs too much memory");
    return copy;
}

/* client_secret_basic is the default (RFC 8414, 2). */
static bool needs_secret_in_body(const struct document *document)
{
    struct fg_slice *methods;
    bool post = false;
    uint32_t n;

    if (fg_claim_values(document->text, FG_LIT("token_endpoint_auth_methods_supported"),
                        document->arena, &methods, &n) != FG_CLAIM_FOUND)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (fg_slice_is(methods[i], "client_secret_basic"))
            return false;
        post |= fg_slice_is(methods[i], "client_secret_post");
    }
    return post;
}

enum fg_code fg_discovery_parse(struct fg_slice text, const char *issuer, struct fg_arena *arena,
                                struct fg_discovery *ret_discovery, struct fg_err *err)
{
    struct document document = {text, arena, err};
    struct fg_discovery discovery;
    struct fg_slice named;

    if (fg_claims_check(text, arena, err) != FG_OK)
        return err->code;
    if (fg_claim_text(document.text, "issuer", document.arena, &named) != FG_CLAIM_FOUND)
        return fg_fail(document.err, FG_E_DECODE, "the document names no issuer");
    if (!fg_slice_is(named, issuer))
        return fg_fail(document.err, FG_E_DECODE, "the document is of the issuer \"%.*s\"",
                       FG_S(fg_slice_sub(named, 0, 200)));
    err->code = FG_OK;
    discovery = (struct fg_discovery){
        .keys = take_url(&document, "jwks_uri"),
        .authorization = take_url(&document, "authorization_endpoint"),
        .token = take_url(&document, "token_endpoint"),
        .end_session = take_url(&document, "end_session_endpoint"),
        .device = take_url(&document, "device_authorization_endpoint"),
        .secret_in_body = needs_secret_in_body(&document),
    };
    if (err->code != FG_OK)
        return err->code;
    if (discovery.keys == NULL)
        return fg_fail(err, FG_E_DECODE, "the document has no jwks_uri");
    *ret_discovery = discovery;
    return FG_OK;
}
