/*
 * What a request says, by line ends: Authorization, X-Scope-OrgID, the parameter `tenant`. The
 * first byte chooses scopes and tenancy. Whoever is let in has sent the token, and gets no tenants
 * but its own.
 */
#include "common/access/guard/decide.h"
#include "common/base/str.h"
#include "common/net/guard.h"
#include "tests/lib/access_make.h"

enum { NOW_MS = 1000 };

static struct fg_access_registry *registry;
static char texts[2][FG_TOKEN_CHARS + 1];

static void make_registry(void)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct access_make make;

    access_make_init(&make, arena, NOW_MS);
    access_make_tenant(&make, "a", ACCESS__TENANT__STATE__ACTIVE);
    access_make_tenant(&make, "b", ACCESS__TENANT__STATE__ACTIVE);
    access_make_tenant(&make, "s", ACCESS__TENANT__STATE__SUSPENDED);
    access_make_token(&make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = 1},
                      texts[0]);
    access_make_token(
        &make, &(struct access_token){.tenants = "a,b,s", .scopes = FG_SCOPE_READ, .seed = 2},
        texts[1]);
    registry = access_make_registry(&make.message);
    fg_arena_destroy(arena);
}

/* Is the text of the token in the header, or in what its base64 says? */
static bool has_token(struct fg_slice header, const char *token)
{
    struct fg_slice encoded = fg_trim(fg_slice_sub(header, 6, SIZE_MAX));
    uint8_t decoded[1024];
    size_t len;

    if (fg_slice_search(header, token) != SIZE_MAX)
        return true;
    return encoded.len <= sizeof decoded && fg_parse_base64(encoded, decoded, &len) &&
           fg_slice_search(fg_bytes(decoded, len), token) != SIZE_MAX;
}

static void check_tenants(const struct fg_grant *grant, bool several, struct fg_slice text)
{
    size_t end = FG_MIN(fg_slice_find(text, '\n'), text.len);
    const struct fg_tenant_names names = {fg_slice_sub(text, 0, end),
                                          fg_slice_sub(text, end + 1, SIZE_MAX)};
    const char *own = grant->token->n_tenants == 1 ? "a" : "ab";
    struct fg_tenant_ids ids;
    struct fg_err err;

    if (fg_grant_tenants(grant, several, names, &ids, &err) != FG_OK)
        return;
    fg_assert(several && ids.n >= 1 && ids.n <= strlen(own));
    for (size_t i = 0; i < ids.n; i++)
        fg_assert(ids.ids[i].len == 1 && strchr(own, ids.ids[i].ptr[0]) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice text = fg_slice_sub(fg_bytes(data, size), 1, size);
    size_t end = FG_MIN(fg_slice_find(text, '\n'), text.len);
    struct fg_access_facts facts = {
        .mode = FG_ACCESS_TOKEN, .authorization = fg_slice_sub(text, 0, end), .now_ms = NOW_MS};
    char id[FG_TOKEN_ID_CHARS + 1], who[64];
    struct fg_grant grant;
    struct fg_err err;

    if (size == 0)
        return 0;
    if (registry == NULL)
        make_registry();
    facts.scopes = data[0] & 1 ? (unsigned)FG_SCOPE_KNOWN : 1U << (data[0] >> 4) % 10;
    if (fg_access_decide(&facts, registry, &grant, id, &err) != FG_OK)
        return 0;
    fg_assert(has_token(facts.authorization, texts[grant.token->n_tenants == 1 ? 0 : 1]));
    fg_assert(facts.scopes == FG_SCOPE_KNOWN || (grant.token->scopes & facts.scopes));
    fg_grant_describe(&grant, who, sizeof who);
    check_tenants(&grant, data[0] & 2, fg_slice_sub(text, end + 1, SIZE_MAX));
    return 0;
}
