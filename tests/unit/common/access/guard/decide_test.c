/*
 * What a caller may do: every mode with every kind of credentials, every scope and every tenant
 * header, against rules that are written down a second time here, slowly; then what the sentences
 * say, roles of people, and that a decision allocates nothing.
 */
#include "common/access/guard/decide.h"
#include "common/base/str.h"
#include "tests/lib/access_make.h"

#include <malloc.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { NOW_MS = 1000000, ALL_TOKENS = 9 };

/* The tokens of the test. */
enum {
    PUSH_A,    /* of one tenant */
    READ_AB,   /* of two */
    READ_ALL,  /* of all */
    ADMIN,     /* of all, but it neither reads nor pushes */
    READ_GONE, /* of a tenant that is not there */
    READ_STATES,
    ENDED,
    EARLY,
    REVOKED,
};

static const struct access_token tokens[ALL_TOKENS] = {
    [PUSH_A] = {.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = 1},
    [READ_AB] = {.tenants = "a,b", .scopes = FG_SCOPE_READ | FG_SCOPE_SHARE, .seed = 2},
    [READ_ALL] = {.tenants = "*", .scopes = FG_SCOPE_READ, .seed = 3},
    [ADMIN] = {.tenants = "*", .scopes = FG_SCOPE_ADMIN | FG_SCOPE_TENANT_ADMIN, .seed = 4},
    [READ_GONE] = {.tenants = "x", .scopes = FG_SCOPE_READ, .seed = 5},
    [READ_STATES] = {.tenants = "a,s,d,u,anonymous", .scopes = FG_SCOPE_READ, .seed = 6},
    [ENDED] = {.tenants = "a", .scopes = FG_SCOPE_READ, .expires_ms = NOW_MS, .seed = 7},
    [EARLY] = {.tenants = "a", .scopes = FG_SCOPE_READ, .not_before_ms = NOW_MS + 1, .seed = 8},
    [REVOKED] = {.tenants = "a", .scopes = FG_SCOPE_READ, .seed = 9},
};

struct fixture {
    struct fg_arena *arena;
    struct fg_access_registry *registry;
    char texts[ALL_TOKENS][FG_TOKEN_CHARS + 1];
    char headers[ALL_TOKENS][FG_TOKEN_CHARS + 16];
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct access_make make;
    struct fg_err err;

    f->arena = fg_arena_create(16 << 20);
    access_make_init(&make, f->arena, NOW_MS - 1000);
    access_make_tenant(&make, "a", ACCESS__TENANT__STATE__ACTIVE);
    access_make_tenant(&make, "b", ACCESS__TENANT__STATE__ACTIVE);
    access_make_tenant(&make, "s", ACCESS__TENANT__STATE__SUSPENDED);
    access_make_tenant(&make, "d", ACCESS__TENANT__STATE__DELETING);
    access_make_tenant(&make, "u", (Access__Tenant__State)77); /* of a later version */
    for (size_t i = 0; i < ALL_TOKENS; i++) {
        access_make_token(&make, &tokens[i], f->texts[i]);
        (void)snprintf(f->headers[i], sizeof f->headers[i], "Bearer %s", f->texts[i]);
    }
    assert_int_equal(fg_access_revoke_token(
                         &make.change, fg_bytes(f->texts[REVOKED] + 4, FG_TOKEN_ID_CHARS), &err),
                     FG_OK);
    f->registry = access_make_registry(&make.message);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_access_registry_unref(f->registry);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

/* ---- the rules, a second time ---- */

struct rule_tenant {
    const char *id;
    bool active;
};
static const struct rule_tenant rule_tenants[] = {
    {"a", true}, {"b", true}, {"s", false}, {"d", false}, {"u", false}};

/* What a header means. */
static const struct {
    const char *header; /* NULL: there is none */
    const char *names;  /* NULL: FG_E_INVALID; "": it says nothing */
} rule_headers[] = {
    {NULL, ""},    {"", ""},      {"a", "a"},     {"b", "b"},     {"s", "s"},
    {"d", "d"},    {"u", "u"},    {"x", "x"},     {"a|b", "ab"},  {"b|a", "ab"},
    {"a|s", "as"}, {"a|x", "ax"}, {"a|a", "a"},   {" a ", "a"},   {"|a|", "a"},
    {"|", ""},     {"A", "A"},    {"a/b", NULL},  {"a b", NULL},  {"a\tb", NULL},
    {"a,b", NULL}, {"..", NULL},  {"a|..", NULL}, {"a:b=c", "a"}, {"\xc3\xa4", NULL}};

static bool rule_has(const struct access_token *token, const char *tenant)
{
    char list[64];

    if (strcmp(token->tenants, "*") == 0)
        return true;
    (void)snprintf(list, sizeof list, ",%s,", token->tenants);
    for (const char *at = list; (at = strstr(at, tenant)) != NULL; at++)
        if (at[-1] == ',' && at[strlen(tenant)] == ',')
            return true;
    return false;
}

static enum fg_code rule_tenant(const struct access_token *token, unsigned demanded, bool several,
                                const char *tenant)
{
    const struct rule_tenant *known = NULL;

    for (size_t i = 0; i < FG_COUNT(rule_tenants); i++)
        if (strcmp(rule_tenants[i].id, tenant) == 0)
            known = &rule_tenants[i];
    if (known != NULL && !known->active)
        return FG_E_DENIED;
    if (token == NULL)
        return FG_OK;
    if (!rule_has(token, tenant))
        return FG_E_DENIED;
    if (demanded != FG_SCOPE_KNOWN && (token->scopes & demanded) == 0)
        return FG_E_DENIED;
    return known == NULL && several ? FG_E_DENIED : FG_OK;
}

/* Of the second step. token NULL: the mode asks for none. */
static enum fg_code rule_tenants_of(const struct access_token *token, unsigned demanded,
                                    bool several, size_t header)
{
    const char *names = rule_headers[header].names;
    char name[2] = "";
    enum fg_code code = FG_OK;

    if (!several)
        return rule_tenant(token, demanded, several, "anonymous");
    if (names == NULL)
        return FG_E_INVALID;
    if (names[0] == '\0') {
        bool one = token != NULL && strchr(token->tenants, ',') == NULL &&
                   strcmp(token->tenants, "*") != 0;
        /* "|" is a header, and says nothing. */
        bool said = rule_headers[header].header != NULL && rule_headers[header].header[0] != '\0';

        return one && !said ? rule_tenant(token, demanded, several, token->tenants)
                            : FG_E_NO_TENANT;
    }
    for (; *names != '\0' && code == FG_OK; names++) {
        name[0] = *names;
        code = rule_tenant(token, demanded, several, name);
    }
    return code;
}

static enum fg_code rule(const struct access_token *token, bool valid, unsigned demanded)
{
    if (!valid)
        return FG_E_NO_TENANT;
    return demanded == FG_SCOPE_KNOWN || (token->scopes & demanded) != 0 ? FG_OK : FG_E_DENIED;
}

/* ---- all of it ---- */

static struct fg_slice header_of(const char *text)
{
    return text == NULL ? fg_bytes(NULL, 0) : fg_cstr(text);
}

static struct fg_tenant_names in_header(const char *header)
{
    return (struct fg_tenant_names){.header = header_of(header)};
}

static void check_tenants(const struct fg_grant *grant, const struct access_token *token,
                          unsigned demanded)
{
    for (size_t h = 0; h < FG_COUNT(rule_headers); h++)
        for (unsigned several = 0; several < 2; several++) {
            enum fg_code want = rule_tenants_of(token, demanded, several, h);
            struct fg_tenant_ids ids;
            struct fg_slice one;
            struct fg_err err;
            enum fg_code code =
                fg_grant_tenants(grant, several, in_header(rule_headers[h].header), &ids, &err);

            if (code != want)
                fail_msg("header \"%s\", several %u, scopes %x: %d, not %d (%s)",
                         rule_headers[h].header, several, demanded, (int)code, (int)want,
                         code == FG_OK ? "" : err.msg);
            if (code == FG_OK && several)
                assert_int_equal(ids.n, FG_MAX((size_t)1, strlen(rule_headers[h].names)));
            if (code == FG_OK && !several)
                assert_true(ids.n == 1 && fg_slice_is(ids.ids[0], "anonymous"));
            /* The same for one, if it is one. */
            if (code == FG_OK && ids.n > 1)
                want = FG_E_INVALID;
            assert_int_equal(
                fg_grant_tenant(grant, several, in_header(rule_headers[h].header), &one, &err),
                want);
        }
}

/* Where a request comes from and goes to. */
struct way {
    enum fg_access_mode mode;
    bool trusted, operators;
};

/* Of a way on which tokens do not count. */
static enum fg_code way_rule(const struct way *way, unsigned demanded)
{
    const unsigned govern = FG_SCOPE_TENANT_ADMIN | FG_SCOPE_ADMIN;

    if (way->mode == FG_ACCESS_NONE)
        return FG_OK;
    if (!way->trusted)
        return FG_E_NO_TENANT;
    return way->operators || !(demanded & govern) ? FG_OK : FG_E_DENIED;
}

/* token: -1: none of the test's. */
static void check(const struct fixture *f, const struct way *way, const char *authorization,
                  int token, bool valid)
{
    bool by_token = way->mode == FG_ACCESS_TOKEN;

    for (unsigned bit = 0; bit <= 10; bit++) {
        unsigned demanded = bit == 10 ? (unsigned)FG_SCOPE_KNOWN : 1U << bit;
        struct fg_access_facts facts = {.mode = way->mode,
                                        .trusted = way->trusted,
                                        .operators = way->operators,
                                        .authorization = header_of(authorization),
                                        .scopes = demanded,
                                        .now_ms = NOW_MS};
        enum fg_code want =
            by_token ? rule(&tokens[FG_MAX(token, 0)], valid, demanded) : way_rule(way, demanded);
        char id[FG_TOKEN_ID_CHARS + 1];
        struct fg_grant grant;
        struct fg_err err;

        assert_int_equal(fg_access_decide(&facts, f->registry, &grant, id, &err), want);
        if (want != FG_OK)
            continue;
        assert_int_equal(grant.kind, by_token ? FG_GRANT_TOKEN : FG_GRANT_ANYONE);
        assert_null(grant.matchers);
        if (way->mode == FG_ACCESS_HEADER)
            assert_int_equal((fg_grant_scopes(&grant, FG_LIT("*")) & FG_SCOPE_ADMIN) != 0,
                             way->operators);
        check_tenants(&grant, by_token ? &tokens[token] : NULL, demanded);
    }
}

static void every_mode_credential_scope_and_header_is_decided_by_the_rules(void **state)
{
    static const enum fg_access_mode modes[] = {FG_ACCESS_NONE, FG_ACCESS_HEADER, FG_ACCESS_TOKEN};
    const struct fixture *f = *state;

    for (size_t m = 0; m < FG_COUNT(modes); m++)
        for (unsigned bits = 0; bits < 4; bits++) {
            const struct way way = {modes[m], (bits & 1) != 0, (bits & 2) != 0};

            check(f, &way, NULL, -1, false);
            check(f, &way, "Bearer nonsense", -1, false);
            for (int t = 0; t < ALL_TOKENS; t++)
                check(f, &way, f->headers[t], t, t < ENDED);
        }
}

/* ---- the header ---- */

static enum fg_code decide_at(const struct fixture *f, const char *authorization, unsigned scopes,
                              int64_t now_ms, struct fg_grant *grant, struct fg_err *err)
{
    const struct fg_access_facts facts = {.mode = FG_ACCESS_TOKEN,
                                          .authorization = header_of(authorization),
                                          .scopes = scopes,
                                          .now_ms = now_ms};
    char id[FG_TOKEN_ID_CHARS + 1];

    return fg_access_decide(&facts, f->registry, grant, id, err);
}

static enum fg_code decide(const struct fixture *f, const char *authorization,
                           struct fg_grant *grant)
{
    struct fg_err err;

    return decide_at(f, authorization, FG_SCOPE_KNOWN, NOW_MS, grant, &err);
}

/* %s: the token. */
static void the_header_is_read_as_the_rfcs_say(void **state)
{
    static const struct {
        const char *format;
        bool valid;
    } cases[] = {
        {"Bearer %s", true},      {"bearer %s", true}, /* RFC 9110, 11.1: the scheme has no case */
        {"BEARER %s", true},      {"Bearer   %s", true},
        {"Bearer %s  ", true},    {"Bearer\t%s", false},
        {"Bearer%s", false},      {"Bearer", false},
        {"Bearer ", false},       {"Bearer %s x", false},
        {"Bearer x %s", false},   {"Bearer %s,Bearer %s", false},
        {"Bearer \"%s\"", false}, {"Bearer token=%s", false},
        {"Token %s", false},      {"%s", false},
        {" Bearer %s", false},    {"", false},
        {"Basic", false},         {"Basic ", false},
        {"Basic %s", false},      {"Basic !!!!", false},
    };
    const struct fixture *f = *state;
    struct fg_grant grant;
    char text[256];

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].format);
        (void)snprintf(text, sizeof text, "%s", "");
        for (const char *at = cases[i].format; *at != '\0'; at++) {
            size_t len = strlen(text);

            if (at[0] == '%' && at[1] == 's') {
                (void)snprintf(text + len, sizeof text - len, "%s", f->texts[PUSH_A]);
                at++;
            } else {
                (void)snprintf(text + len, sizeof text - len, "%c", *at);
            }
        }
        assert_int_equal(decide(f, text, &grant), cases[i].valid ? FG_OK : FG_E_NO_TENANT);
    }
}

/* user:password in base64. */
static const char *basic(struct fg_buf *out, struct fg_slice user, const char *password)
{
    unsigned char encoded[1024];
    struct fg_buf both;

    fg_buf_init(&both, sizeof encoded / 2);
    fg_buf_put(&both, user);
    fg_buf_putc(&both, ':');
    fg_buf_puts(&both, password);
    fg_buf_clear(out);
    fg_buf_puts(out, "Basic ");
    (void)EVP_EncodeBlock(encoded, both.ptr, (int)both.len);
    fg_buf_puts(out, (const char *)encoded);
    fg_buf_putc(out, '\0');
    fg_buf_done(&both);
    return (const char *)out->ptr;
}

static void the_password_of_basic_is_the_token(void **state)
{
    const struct fixture *f = *state;
    char longest[FG_TENANT_MAX_BYTES + 2];
    struct fg_grant grant;
    struct fg_buf text;

    fg_buf_init(&text, 4096);
    assert_int_equal(decide(f, basic(&text, FG_LIT(""), f->texts[PUSH_A]), &grant), FG_OK);
    assert_int_equal(decide(f, basic(&text, FG_LIT("token"), f->texts[PUSH_A]), &grant), FG_OK);
    assert_int_equal(decide(f, basic(&text, FG_LIT("a"), "secret"), &grant), FG_E_NO_TENANT);
    assert_int_equal(decide(f, basic(&text, fg_cstr(f->texts[PUSH_A]), ""), &grant),
                     FG_E_NO_TENANT);
    /* RFC 7617, 2: the first colon ends the name. */
    assert_int_equal(decide(f, basic(&text, FG_LIT("a:b"), f->texts[PUSH_A]), &grant),
                     FG_E_NO_TENANT);
    memset(longest, 'u', sizeof longest);
    assert_int_equal(
        decide(f, basic(&text, fg_bytes(longest, FG_TENANT_MAX_BYTES), f->texts[PUSH_A]), &grant),
        FG_OK);
    assert_int_equal(
        decide(f, basic(&text, fg_bytes(longest, FG_TENANT_MAX_BYTES + 1), f->texts[PUSH_A]),
               &grant),
        FG_E_NO_TENANT);
    /* A name with a NUL would be read as a shorter one. */
    assert_int_equal(decide(f, basic(&text, fg_bytes("a\0b", 3), f->texts[READ_AB]), &grant),
                     FG_OK);
    assert_string_equal(grant.user, "");
    fg_buf_done(&text);
}

/* Grafana's habit: the user is the tenant. */
static void the_user_of_basic_may_be_the_tenant(void **state)
{
    static const struct {
        int token;
        const char *user, *header; /* NULL: none */
        enum fg_code code;
        const char *tenant;
    } cases[] = {
        {READ_AB, "a", NULL, FG_OK, "a"},
        {READ_AB, "b", NULL, FG_OK, "b"},
        {READ_AB, "token", NULL, FG_E_NO_TENANT, NULL},
        {READ_AB, "", NULL, FG_E_NO_TENANT, NULL},
        {READ_AB, "x", NULL, FG_E_NO_TENANT, NULL},
        {READ_AB, "a|b", NULL, FG_E_NO_TENANT, NULL},
        /* The header says more than the name. */
        {READ_AB, "a", "b", FG_OK, "b"},
        {READ_AB, "a", "s", FG_E_DENIED, NULL},
        {READ_ALL, "b", NULL, FG_OK, "b"},
        {READ_ALL, "s", NULL, FG_E_DENIED, NULL},
        {READ_ALL, "x", NULL, FG_E_NO_TENANT, NULL},
        /* A token of one tenant needs no name, and no name leads out of it. */
        {PUSH_A, "", NULL, FG_OK, "a"},
        {PUSH_A, "b", NULL, FG_OK, "a"},
        {PUSH_A, "whoever", "a", FG_OK, "a"},
        {PUSH_A, "b", "b", FG_E_DENIED, NULL},
    };
    const struct fixture *f = *state;
    struct fg_buf text;

    fg_buf_init(&text, 4096);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_grant grant;
        struct fg_slice tenant;
        struct fg_err err;

        print_message("  %d %s %s\n", cases[i].token, cases[i].user, cases[i].header);
        assert_int_equal(
            decide(f, basic(&text, fg_cstr(cases[i].user), f->texts[cases[i].token]), &grant),
            FG_OK);
        assert_int_equal(fg_grant_tenant(&grant, true, in_header(cases[i].header), &tenant, &err),
                         cases[i].code);
        if (cases[i].code == FG_OK)
            assert_true(fg_slice_is(tenant, cases[i].tenant));
    }
    fg_buf_done(&text);
}

/* What a request says in X-Scope-OrgID, in the parameter and as user of Basic. */
static void a_parameter_names_the_tenant_or_is_refused(void **state)
{
    static const struct {
        int token;                         /* -1: the modes none and header */
        const char *user, *header, *param; /* NULL: none */
        bool several;
        enum fg_code code;
        const char *first; /* of the tenants */
    } cases[] = {
        {PUSH_A, "", NULL, "a", true, FG_OK, "a"},
        {PUSH_A, "", NULL, "b", true, FG_E_DENIED, NULL},
        {PUSH_A, "", NULL, "x", true, FG_E_DENIED, NULL},
        {PUSH_A, "", NULL, "a|b", true, FG_E_DENIED, NULL},
        {PUSH_A, "", NULL, "", true, FG_OK, "a"},
        {PUSH_A, "", NULL, "a/b", true, FG_E_INVALID, NULL},
        {PUSH_A, "", "a", "a", true, FG_OK, "a"},
        {PUSH_A, "", "a", "b", true, FG_E_DENIED, NULL},
        {PUSH_A, "", "b", "a", true, FG_E_DENIED, NULL},
        {PUSH_A, "b", NULL, "a", true, FG_OK, "a"},
        {READ_AB, "", NULL, "b", true, FG_OK, "b"},
        {READ_AB, "", NULL, "b|a", true, FG_OK, "a"},
        {READ_AB, "a", NULL, "b", true, FG_OK, "b"},
        {READ_AB, "a", NULL, "s", true, FG_E_DENIED, NULL},
        {READ_AB, "", "a", "b", true, FG_E_DENIED, NULL},
        {READ_AB, "", "a|b", "a", true, FG_E_DENIED, NULL},
        {READ_AB, "", "a|b", "b|a", true, FG_OK, "a"},
        {READ_ALL, "", NULL, "s", true, FG_E_DENIED, NULL},
        /* One tenant: the header means nothing, but nobody asks for another by accident. */
        {READ_ALL, "", "b", NULL, false, FG_OK, "anonymous"},
        {READ_ALL, "", NULL, "anonymous", false, FG_OK, "anonymous"},
        {READ_ALL, "", NULL, "b", false, FG_E_DENIED, NULL},
        {READ_ALL, "", "b", "b", false, FG_E_DENIED, NULL},
        /* Behind a gateway, which sets the header: the client's parameter does not choose. */
        {-1, "", NULL, "a", true, FG_E_NO_TENANT, NULL},
        {-1, "", "", "a", true, FG_E_NO_TENANT, NULL},
        {-1, "", "a", "b", true, FG_E_DENIED, NULL},
        {-1, "", "a", "a", true, FG_OK, "a"},
        {-1, "", NULL, "b", false, FG_E_DENIED, NULL},
    };
    const struct fixture *f = *state;
    struct fg_buf text;

    fg_buf_init(&text, 4096);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        const struct fg_tenant_names names = {header_of(cases[i].header),
                                              header_of(cases[i].param)};
        struct fg_grant grant = {.kind = FG_GRANT_ANYONE, .demanded = FG_SCOPE_KNOWN};
        struct fg_tenant_ids ids;
        struct fg_err err;

        print_message("  %d %s %s %s\n", cases[i].token, cases[i].user, cases[i].header,
                      cases[i].param);
        if (cases[i].token >= 0)
            assert_int_equal(
                decide(f, basic(&text, fg_cstr(cases[i].user), f->texts[cases[i].token]), &grant),
                FG_OK);
        assert_int_equal(fg_grant_tenants(&grant, cases[i].several, names, &ids, &err),
                         cases[i].code);
        if (cases[i].code == FG_OK)
            assert_true(fg_slice_is(ids.ids[0], cases[i].first));
    }
    fg_buf_done(&text);
}

static void a_token_begins_and_ends_on_its_millisecond(void **state)
{
    static const struct {
        int token;
        int64_t now_ms;
        enum fg_code code;
    } cases[] = {
        {ENDED, NOW_MS - 1, FG_OK},
        {ENDED, NOW_MS, FG_E_NO_TENANT},
        {EARLY, NOW_MS, FG_E_NO_TENANT},
        {EARLY, NOW_MS + 1, FG_OK},
        {REVOKED, NOW_MS - 999, FG_E_NO_TENANT}, /* even by a clock that is late */
        {PUSH_A, INT64_MAX, FG_OK},
    };
    const struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_grant grant;
        struct fg_err err;

        assert_int_equal(
            decide_at(f, f->headers[cases[i].token], FG_SCOPE_KNOWN, cases[i].now_ms, &grant, &err),
            cases[i].code);
    }
}

/* ---- sentences ---- */

/* Who tries out credentials learns nothing of them. */
static void a_refusal_does_not_say_what_was_wrong(void **state)
{
    const struct fixture *f = *state;
    char other[FG_TOKEN_CHARS + 1], header[FG_TOKEN_CHARS + 16], id[FG_TOKEN_ID_CHARS + 1];
    const char *wrong[6] = {f->headers[ENDED], f->headers[EARLY], f->headers[REVOKED], "Bearer x",
                            "Basic eDp5"};
    struct fg_grant grant;
    struct fg_err err;

    /* The id of a token that is there, and another secret. */
    (void)snprintf(id, sizeof id, "%.8s", f->texts[PUSH_A] + 4);
    (void)access_make_secret(77, id, other);
    (void)snprintf(header, sizeof header, "Bearer %s", other);
    wrong[5] = header;
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        assert_int_equal(decide_at(f, wrong[i], FG_SCOPE_READ, NOW_MS, &grant, &err),
                         FG_E_NO_TENANT);
        assert_string_equal(err.msg, "the credentials are not valid");
    }
    assert_int_equal(decide_at(f, NULL, FG_SCOPE_READ, NOW_MS, &grant, &err), FG_E_NO_TENANT);
    assert_non_null(strstr(err.msg, "Authorization: Bearer"));
}

static void the_id_of_a_refused_token_is_for_the_log(void **state)
{
    const struct fixture *f = *state;
    const struct fg_access_facts facts = {.mode = FG_ACCESS_TOKEN,
                                          .authorization = fg_cstr(f->headers[ENDED]),
                                          .scopes = FG_SCOPE_READ,
                                          .now_ms = NOW_MS};
    char id[FG_TOKEN_ID_CHARS + 1];
    struct fg_grant grant;
    struct fg_err err;

    assert_int_equal(fg_access_decide(&facts, f->registry, &grant, id, &err), FG_E_NO_TENANT);
    assert_memory_equal(id, f->texts[ENDED] + 4, FG_TOKEN_ID_CHARS);
    /* And without a registry, as of a process that has not read it. */
    assert_int_equal(fg_access_decide(&facts, NULL, &grant, id, &err), FG_E_NO_TENANT);
}

static void a_refusal_of_a_known_caller_names_scope_and_tenant(void **state)
{
    const struct fixture *f = *state;
    struct fg_grant grant;
    struct fg_slice tenant;
    struct fg_err err;
    char want[128];

    assert_int_equal(
        decide_at(f, f->headers[PUSH_A], FG_SCOPE_READ | FG_SCOPE_RULES, NOW_MS, &grant, &err),
        FG_E_DENIED);
    (void)snprintf(want, sizeof want, "token %.8s (test) needs one of the scopes read,rules",
                   f->texts[PUSH_A] + 4);
    assert_string_equal(err.msg, want);
    assert_int_equal(decide_at(f, f->headers[PUSH_A], FG_SCOPE_PUSH, NOW_MS, &grant, &err), FG_OK);
    assert_int_equal(fg_grant_tenant(&grant, true, in_header("b"), &tenant, &err), FG_E_DENIED);
    (void)snprintf(want, sizeof want, "token %.8s (test) has no access to tenant \"b\"",
                   f->texts[PUSH_A] + 4);
    assert_string_equal(err.msg, want);
    assert_int_equal(decide_at(f, f->headers[READ_ALL], FG_SCOPE_READ, NOW_MS, &grant, &err),
                     FG_OK);
    assert_int_equal(fg_grant_tenant(&grant, true, in_header("s"), &tenant, &err), FG_E_DENIED);
    assert_string_equal(err.msg, "tenant \"s\" is suspended");
    assert_int_equal(fg_grant_tenant(&grant, true, in_header("d"), &tenant, &err), FG_E_DENIED);
    assert_string_equal(err.msg, "tenant \"d\" is being deleted");
    assert_int_equal(fg_grant_tenant(&grant, true, in_header("x"), &tenant, &err), FG_E_DENIED);
    assert_string_equal(err.msg, "tenant \"x\" does not exist");
    assert_int_equal(fg_grant_tenant(&grant, true, in_header("u"), &tenant, &err), FG_E_DENIED);
    assert_string_equal(err.msg, "tenant \"u\" is not active");
    assert_int_equal(fg_grant_tenant(&grant, true, in_header("a|b"), &tenant, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "multiple org IDs present");
}

/* A tenant "a" was deleted at NOW_MS - 10, and there is a new one. */
static void a_token_is_not_for_a_later_tenant_of_the_name(void **state)
{
    static const struct {
        const char *tenants;
        int64_t created_ms;
        const char *user, *header;
        enum fg_code code;
    } cases[] = {
        {"a,b", NOW_MS - 20, "", "a", FG_E_DENIED},
        {"a,b", NOW_MS - 10, "", "a", FG_E_DENIED},
        {"a,b", NOW_MS - 9, "", "a", FG_OK},
        {"a,b", NOW_MS - 20, "", "b", FG_OK},
        /* Its name does not lead to the other one. */
        {"a,b", NOW_MS - 20, "a", NULL, FG_E_DENIED},
        {"a", NOW_MS - 20, "", NULL, FG_E_DENIED},
        {"*", NOW_MS - 20, "", "a", FG_OK},
        {"a,*", NOW_MS - 20, "", "a", FG_OK},
    };
    struct fg_buf text;

    (void)state;
    fg_buf_init(&text, 4096);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_arena *arena = fg_arena_create(1 << 20);
        char token[FG_TOKEN_CHARS + 1];
        struct access_make make;
        struct fixture other;
        struct fg_grant grant;
        struct fg_slice tenant;
        struct fg_err err;

        access_make_init(&make, arena, NOW_MS);
        access_make_tenant(&make, "a", ACCESS__TENANT__STATE__ACTIVE);
        access_make_tenant(&make, "b", ACCESS__TENANT__STATE__ACTIVE);
        make.message.tenants[0]->replaced_ms = NOW_MS - 10;
        access_make_token(
            &make,
            &(struct access_token){.tenants = cases[i].tenants, .scopes = FG_SCOPE_READ, .seed = 1},
            token);
        make.message.tokens[0]->created_ms = cases[i].created_ms;
        other.registry = access_make_registry(&make.message);
        assert_int_equal(decide(&other, basic(&text, fg_cstr(cases[i].user), token), &grant),
                         FG_OK);
        assert_int_equal(fg_grant_tenant(&grant, true, in_header(cases[i].header), &tenant, &err),
                         cases[i].code);
        if (cases[i].code == FG_E_DENIED)
            assert_non_null(strstr(err.msg, "made for an earlier one of that name"));
        fg_access_registry_unref(other.registry);
        fg_arena_destroy(arena);
    }
    fg_buf_done(&text);
}

/* ---- matchers and people ---- */

static void matchers_come_with_the_token(void **state)
{
    struct access_make make;
    char text[FG_TOKEN_CHARS + 1], header[FG_TOKEN_CHARS + 16];
    struct fg_access_registry *registry;
    struct fixture other;
    struct fg_grant grant;
    struct fg_arena *arena = fg_arena_create(1 << 20);

    (void)state;
    access_make_init(&make, arena, NOW_MS);
    access_make_tenant(&make, "a", ACCESS__TENANT__STATE__ACTIVE);
    access_make_token(
        &make,
        &(struct access_token){
            .tenants = "a", .scopes = FG_SCOPE_READ, .matchers = "{namespace=\"web\"}", .seed = 1},
        text);
    registry = access_make_registry(&make.message);
    other.registry = registry;
    (void)snprintf(header, sizeof header, "Bearer %s", text);
    assert_int_equal(decide(&other, header, &grant), FG_OK);
    assert_non_null(grant.matchers);
    assert_false(fg_selector_matches(grant.matchers, &(struct fg_labels){0}));
    fg_access_registry_unref(registry);
    fg_arena_destroy(arena);
}

static void a_label_leads_to_tenants_of_the_token_only(void **state)
{
    static const struct {
        const char *value, *tenant; /* NULL: it is refused */
    } cases[] = {
        {"shop", "team-shop"}, /* prefix and value */
        {"web", "rest"},       /* team-web is there, and none of the token */
        {"special", "other"},  /* by the list, which comes first */
        {"", "rest"},          /* without the label */
        {"team-shop", "rest"}, /* the prefix stands before the whole value */
        {"closed", NULL},      /* suspended */
        {"nobody", "rest"},
    };
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_tenant_ids ids;
    struct fg_err err;
    char text[FG_TOKEN_CHARS + 1], header[FG_TOKEN_CHARS + 16];
    Access__TenantLabel label;
    Access__TenantOfValue special, *listed[] = {&special};
    char name[] = "team", prefix[] = "team-", rest[] = "rest", value[] = "special",
         other[] = "other";
    struct access_make make;
    struct fixture f;
    struct fg_grant grant;

    (void)state;
    access_make_init(&make, arena, NOW_MS);
    access_make_tenant(&make, "team-shop", ACCESS__TENANT__STATE__ACTIVE);
    access_make_tenant(&make, "team-web", ACCESS__TENANT__STATE__ACTIVE);
    access_make_tenant(&make, "team-closed", ACCESS__TENANT__STATE__SUSPENDED);
    access_make_tenant(&make, "other", ACCESS__TENANT__STATE__ACTIVE);
    access_make_tenant(&make, "rest", ACCESS__TENANT__STATE__ACTIVE);
    access_make_token(&make,
                      &(struct access_token){.tenants = "team-shop,team-closed,other,rest",
                                             .scopes = FG_SCOPE_PUSH,
                                             .seed = 1},
                      text);
    access__tenant_of_value__init(&special);
    special.value = value;
    special.tenant = other;
    access__tenant_label__init(&label);
    label.name = name;
    label.prefix = prefix;
    label.otherwise = rest;
    label.tenants = listed;
    label.n_tenants = 1;
    make.message.tokens[0]->tenant_label = &label;
    f.registry = access_make_registry(&make.message);
    (void)snprintf(header, sizeof header, "Bearer %s", text);
    assert_int_equal(decide(&f, header, &grant), FG_OK);
    assert_true(fg_grant_splits(&grant));
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_label item = {FG_LIT("team"), fg_cstr(cases[i].value)};
        const struct fg_labels labels = {&item, cases[i].value[0] == '\0' ? 0 : 1};
        struct fg_slice tenant = FG_LIT("");
        enum fg_code code = fg_grant_tenant_of(&grant, FG_LIT("rest"), &labels, &tenant, &err);

        print_message("  %s\n", cases[i].value);
        assert_int_equal(code, cases[i].tenant == NULL ? FG_E_DENIED : FG_OK);
        if (cases[i].tenant != NULL)
            assert_true(fg_slice_is(tenant, cases[i].tenant));
    }
    /* A tenant that is suspended shuts out its own series alone. */
    for (size_t i = 0; i < make.message.n_tenants; i++)
        if (strcmp(make.message.tenants[i]->id, "rest") == 0)
            make.message.tenants[i]->state = ACCESS__TENANT__STATE__SUSPENDED;
    fg_access_registry_unref(f.registry);
    f.registry = access_make_registry(&make.message);
    assert_int_equal(decide_at(&f, header, FG_SCOPE_PUSH | FG_SCOPE_FORWARD, NOW_MS, &grant, &err),
                     FG_OK);
    assert_int_equal(fg_grant_tenants(&grant, true, in_header("rest"), &ids, &err), FG_OK);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_label item = {FG_LIT("team"), fg_cstr(cases[i].value)};
        const struct fg_labels labels = {&item, cases[i].value[0] == '\0' ? 0 : 1};
        struct fg_slice tenant;
        bool open = cases[i].tenant != NULL && strcmp(cases[i].tenant, "rest") != 0;

        assert_int_equal(fg_grant_tenant_of(&grant, FG_LIT("rest"), &labels, &tenant, &err),
                         open ? FG_OK : FG_E_DENIED);
    }
    fg_access_registry_unref(f.registry);
    fg_arena_destroy(arena);
}

static void roles_of_people_are_about_tenants(void **state)
{
    static const struct fg_access_role roles[] = {
        {{(const uint8_t *)"a", 1}, FG_SCOPE_READ},
        {{(const uint8_t *)"team-*", 6}, FG_SCOPE_READ | FG_SCOPE_RULES},
        {{(const uint8_t *)"b", 1}, FG_SCOPE_TENANT_ADMIN},
    };
    static const struct {
        const char *tenant;
        unsigned scopes;
    } cases[] = {{"a", FG_SCOPE_READ},
                 {"b", FG_SCOPE_TENANT_ADMIN},
                 {"team-", FG_SCOPE_READ | FG_SCOPE_RULES},
                 {"team-x", FG_SCOPE_READ | FG_SCOPE_RULES},
                 {"team", 0},
                 {"aa", 0},
                 {"*", 0},
                 {"", 0}};
    const struct fixture *f = *state;
    const struct fg_access_identity identity = {FG_LIT("https://id.example.com"),
                                                FG_LIT("ann@example.com"), roles, FG_COUNT(roles)};
    struct fg_access_facts facts = {
        .mode = FG_ACCESS_TOKEN, .identity = &identity, .scopes = FG_SCOPE_READ, .now_ms = NOW_MS};
    char id[FG_TOKEN_ID_CHARS + 1];
    struct fg_tenant_ids ids;
    struct fg_grant grant;
    struct fg_err err;

    assert_int_equal(fg_access_decide(&facts, f->registry, &grant, id, &err), FG_OK);
    assert_int_equal(grant.kind, FG_GRANT_IDENTITY);
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        assert_int_equal(fg_grant_scopes(&grant, fg_cstr(cases[i].tenant)), cases[i].scopes);
    /* She may read a, and govern b: neither gives her the other. */
    assert_int_equal(fg_grant_tenants(&grant, true, in_header("a"), &ids, &err), FG_OK);
    assert_int_equal(fg_grant_tenants(&grant, true, in_header("b"), &ids, &err), FG_E_DENIED);
    assert_string_equal(err.msg, "ann@example.com (https://id.example.com) needs the scope read");
    assert_int_equal(fg_grant_tenants(&grant, true, in_header("a|b"), &ids, &err), FG_E_DENIED);
    assert_int_equal(fg_grant_tenants(&grant, true, in_header("x"), &ids, &err), FG_E_DENIED);
    assert_int_equal(fg_grant_tenants(&grant, true, in_header(NULL), &ids, &err), FG_E_NO_TENANT);
    facts.scopes = FG_SCOPE_PUSH;
    assert_int_equal(fg_access_decide(&facts, f->registry, &grant, id, &err), FG_E_DENIED);
    facts.scopes = FG_SCOPE_KNOWN;
    facts.identity =
        &(struct fg_access_identity){FG_LIT("https://id.example.com"), FG_LIT("bob"), NULL, 0};
    assert_int_equal(fg_access_decide(&facts, f->registry, &grant, id, &err), FG_OK);
}

/* Nobody is taken for somebody else, whatever subject they have at an issuer of their own. */
static void a_person_is_described_with_the_issuer(void **state)
{
    static const struct {
        const char *subject, *who;
    } cases[] = {
        {"ann", "ann (https://b.example)"},
        {"ann (https://a.example)", "ann (https://a.example) (https://b.example)"},
        {"token 4uJc0TqZ (ops)", "token 4uJc0TqZ (ops) (https://b.example)"},
        {"anyone", "anyone (https://b.example)"},
        {"", " (https://b.example)"},
        /* The subject is cut. */
        {"0123456789012345678901234567890123456789012345 (https://a.example)",
         "0123456789012345678901234567890123456789012 (https://b.example)"},
    };
    char who[64];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_person_describe(FG_LIT("https://b.example"), fg_cstr(cases[i].subject), who, sizeof who);
        assert_string_equal(who, cases[i].who);
    }
    /* Of an issuer that is longer than half of the room its half, and the subject has the rest. */
    fg_person_describe(FG_LIT("https://issuer.example/that/is/long"), FG_LIT("0123456789"), who,
                       32);
    assert_string_equal(who, "0123456789 (https://issuer.e)");
}

/* ---- cost ---- */

/* Calls of malloc() under a sanitizer; else bytes, since glibc counts no calls. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static _Atomic size_t n_allocations;

static void on_malloc(const volatile void *memory, size_t size)
{
    (void)memory;
    (void)size;
    n_allocations++;
}

static void on_free(const volatile void *memory)
{
    (void)memory;
}

static size_t allocations(void)
{
    static bool installed;

    if (!installed)
        assert_true(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) != 0);
    installed = true;
    return n_allocations;
}
#else
static size_t allocations(void)
{
    return mallinfo2().uordblks;
}
#endif

/* Whatever the credentials are. */
static void a_decision_allocates_nothing(void **state)
{
    const struct fixture *f = *state;
    struct fg_buf text;
    const char *headers[4];
    size_t before = 0;

    fg_buf_init(&text, 4096);
    headers[0] = f->headers[PUSH_A];
    headers[1] = basic(&text, FG_LIT("a"), f->texts[READ_AB]);
    headers[2] = "Bearer fgt_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    headers[3] = f->headers[REVOKED];
    for (unsigned round = 0; round < 100; round++) {
        for (size_t i = 0; i < FG_COUNT(headers); i++) {
            struct fg_grant grant;
            struct fg_tenant_ids ids;
            struct fg_err err;

            if (decide_at(f, headers[i], FG_SCOPE_KNOWN, NOW_MS, &grant, &err) == FG_OK)
                assert_int_equal(fg_grant_tenants(&grant, true, in_header("a"), &ids, &err), FG_OK);
        }
        if (round == 0) /* what is made once is there */
            before = allocations();
    }
    assert_int_equal(allocations(), before);
    /* The count counts. */
    free(fg_calloc(1, 100000));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    assert_true(allocations() > before);
#endif
    fg_buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_credential_scope_and_header_is_decided_by_the_rules),
        cmocka_unit_test(the_header_is_read_as_the_rfcs_say),
        cmocka_unit_test(the_password_of_basic_is_the_token),
        cmocka_unit_test(the_user_of_basic_may_be_the_tenant),
        cmocka_unit_test(a_parameter_names_the_tenant_or_is_refused),
        cmocka_unit_test(a_token_begins_and_ends_on_its_millisecond),
        cmocka_unit_test(a_refusal_does_not_say_what_was_wrong),
        cmocka_unit_test(the_id_of_a_refused_token_is_for_the_log),
        cmocka_unit_test(a_refusal_of_a_known_caller_names_scope_and_tenant),
        cmocka_unit_test(a_token_is_not_for_a_later_tenant_of_the_name),
        cmocka_unit_test(matchers_come_with_the_token),
        cmocka_unit_test(a_label_leads_to_tenants_of_the_token_only),
        cmocka_unit_test(roles_of_people_are_about_tenants),
        cmocka_unit_test(a_person_is_described_with_the_issuer),
        cmocka_unit_test(a_decision_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
