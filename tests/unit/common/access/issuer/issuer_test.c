/*
 * Keys are fetched from an issuer that does what the test says, and tokens of the corpus
 * (tests/access/corpus.py) are verified with them.
 */
#include "common/access/issuer/issuer.h"
#include "common/runtime/config.h"
#include "common/runtime/stop.h"
#include "tests/lib/fake_server.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { TRIES = 2000, TRY_US = 10000 };

static const int64_t NOW_S = 1800000000;

enum manner { KEYS, FEWER_KEYS, NO_KEYS, ERROR, GARBAGE, HUGE_ANSWER, REDIRECT };

struct fixture {
    struct fake_server *server;
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct fg_issuers *issuers;
    struct fg_buf keys, tokens;
    char url[100], keys_url[120], other_url[120], token_file[64];
    _Atomic unsigned manner, asked, authorized;
    unsigned port;
};

/* ---- the issuer ---- */

static void answer_document(struct fixture *f, struct fake_connection *connection)
{
    char text[500];

    (void)snprintf(text, sizeof text,
                   "{\"issuer\":\"%s\",\"jwks_uri\":\"http://localhost:%u/keys\","
                   "\"token_endpoint\":\"%s/token\",\"end_session_endpoint\":\"%s/end\"}",
                   f->url, f->port, f->url, f->url);
    (void)fake_respond(connection, 200, "", fg_cstr(text));
}

/* The key that signed "RS256" is withdrawn. */
static void answer_fewer_keys(struct fixture *f, struct fake_connection *connection)
{
    json_t *document = json_loadb((const char *)f->keys.ptr, f->keys.len, 0, NULL);
    json_t *keys = json_object_get(document, "keys");
    char *text;

    for (size_t i = json_array_size(keys); i-- > 0;)
        if (strcmp(json_string_value(json_object_get(json_array_get(keys, i), "kty")), "RSA") == 0)
            assert_int_equal(json_array_remove(keys, i), 0);
    text = json_dumps(document, 0);
    (void)fake_respond(connection, 200, "", fg_cstr(text));
    free(text);
    json_decref(document);
}

static void answer(struct fixture *f, struct fake_connection *connection, const char *request)
{
    char *huge;

    if (strstr(request, "Authorization: Bearer file-token") != NULL)
        (void)atomic_fetch_add(&f->authorized, 1);
    if (strstr(request, FG_DISCOVERY_PATH) != NULL) {
        answer_document(f, connection);
        return;
    }
    switch ((enum manner)atomic_load(&f->manner)) {
    case KEYS:
        (void)fake_respond(connection, 200, "", fg_buf_slice(&f->keys));
        break;
    case FEWER_KEYS:
        answer_fewer_keys(f, connection);
        break;
    case NO_KEYS:
        (void)fake_respond(connection, 200, "", FG_LIT("{\"keys\":[]}"));
        break;
    case ERROR:
        (void)fake_respond(connection, 500, "", fg_buf_slice(&f->keys));
        break;
    case GARBAGE:
        (void)fake_respond(connection, 200, "", FG_LIT("<html>"));
        break;
    case HUGE_ANSWER:
        huge = fg_malloc(FG_JWKS_MAX_BYTES + 1);
        memset(huge, ' ', FG_JWKS_MAX_BYTES + 1);
        (void)fake_respond(connection, 200, "", fg_bytes(huge, FG_JWKS_MAX_BYTES + 1));
        free(huge);
        break;
    case REDIRECT:
        (void)fake_respond(connection, 302, "Location: /keys\r\n", FG_LIT(""));
        break;
    }
}

static void handle(struct fake_connection *connection, void *arg)
{
    struct fixture *f = arg;
    char request[8192];

    while (fake_read(connection, request, sizeof request)) {
        answer(f, connection, request);
        (void)atomic_fetch_add(&f->asked, 1);
    }
}

/* ---- fixture ---- */

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;
    FILE *file;
    int fd;

    fg_ignore_sigpipe();
    fg_buf_init(&f->keys, 1 << 20);
    fg_buf_init(&f->tokens, 1 << 20);
    assert_int_equal(
        fg_conf_read_file(FG_SOURCE_DIR "/tests/data/access/keys.json", &f->keys, &err), FG_OK);
    assert_int_equal(
        fg_conf_read_file(FG_SOURCE_DIR "/tests/data/access/tokens.tsv", &f->tokens, &err), FG_OK);
    f->server = fake_server_start(NULL, false, handle, f);
    f->port = fake_server_port(f->server);
    (void)snprintf(f->url, sizeof f->url, "http://127.0.0.1:%u", f->port);
    (void)snprintf(f->keys_url, sizeof f->keys_url, "%s/keys", f->url);
    (void)snprintf(f->token_file, sizeof f->token_file, "/tmp/issuer-test-XXXXXX");
    fd = mkstemp(f->token_file);
    assert_true(fd >= 0);
    file = fdopen(fd, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "file-token\n") > 0);
    assert_int_equal(fclose(file), 0);
    fg_clock_manual_init(&f->clock, NOW_S * FG_SECOND_NS);
    f->registry = fg_registry_create();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    if (f->issuers != NULL)
        fg_issuers_stop(f->issuers);
    fg_issuers_destroy(f->issuers);
    fake_server_stop(f->server);
    fg_registry_destroy(f->registry);
    fg_buf_done(&f->keys);
    fg_buf_done(&f->tokens);
    (void)unlink(f->token_file);
    free(f);
    return 0;
}

static enum fg_code create(struct fixture *f, const struct fg_issuer_config *config,
                           struct fg_err *err)
{
    const struct fg_issuers_config issuers = {
        .list = config, .n = 1, .clock = &f->clock.clock, .registry = f->registry};

    return fg_issuers_create(&issuers, &f->issuers, err);
}

static void start(struct fixture *f)
{
    const struct fg_issuer_config config = {.issuer = "https://issuer.example",
                                            .audience = "flamegrid",
                                            .keys_url = f->keys_url,
                                            .ca_file = "",
                                            .token_file = f->token_file,
                                            .tenant_claim = "sub"};
    struct fg_err err;

    assert_int_equal(create(f, &config, &err), FG_OK);
    assert_int_equal(fg_issuers_start(f->issuers, &err), FG_OK);
}

static struct fg_slice token_of(const struct fixture *f, const char *name)
{
    struct fg_slice rest = fg_buf_slice(&f->tokens);

    while (rest.len > 0) {
        struct fg_slice line = fg_slice_sub(rest, 0, fg_slice_find(rest, '\n'));
        size_t tab = fg_slice_find(line, '\t');

        rest = fg_slice_sub(rest, line.len + 1, rest.len);
        if (!fg_slice_is(fg_slice_sub(line, 0, tab), name))
            continue;
        for (unsigned i = 0; i < 3; i++)
            line = fg_slice_sub(line, fg_slice_find(line, '\t') + 1, line.len);
        return line;
    }
    fail_msg("the corpus has no token \"%s\"", name);
    return rest;
}

static enum fg_code verify(struct fixture *f, const char *name, uint64_t generation,
                           struct fg_identity **ret_identity, struct fg_err *err)
{
    const struct fg_binding binding = {.issuer = FG_LIT("https://issuer.example"),
                                       .claim = FG_LIT("groups"),
                                       .value = generation == 1 ? FG_LIT("dev") : FG_LIT("nobody"),
                                       .tenants = FG_LIT("team-*"),
                                       .scopes = fg_role_scopes(FG_LIT("viewer"))};
    const struct fg_bindings bindings = {.list = &binding, .n = 1, .generation = generation};

    return fg_issuers_verify(f->issuers, token_of(f, name), &bindings, NOW_S, ret_identity, err);
}

static enum fg_code judge(struct fixture *f, const char *name)
{
    fg_auto(fg_identity) *identity = NULL;
    struct fg_err err;

    return verify(f, name, 1, &identity, &err);
}

static void wait_for(struct fixture *f, const char *name, enum fg_code wanted)
{
    enum fg_code code = judge(f, name);

    for (unsigned i = 0; code != wanted && i < TRIES; i++) {
        (void)usleep(TRY_US);
        code = judge(f, name);
    }
    assert_int_equal(code, wanted);
}

static void wait_asked(struct fixture *f, unsigned n)
{
    for (unsigned i = 0; atomic_load(&f->asked) < n && i < TRIES; i++)
        (void)usleep(TRY_US);
    assert_int_equal(atomic_load(&f->asked), n);
}

static uint64_t counted(struct fixture *f, const char *name)
{
    struct fg_buf text;
    char line[200];
    const char *at;
    uint64_t value;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(f->registry, &text);
    fg_buf_putc(&text, 0);
    (void)snprintf(line, sizeof line, "\n%s ", name);
    at = strstr((const char *)text.ptr, line);
    assert_non_null(at);
    value = strtoull(at + strlen(line), NULL, 10);
    fg_buf_done(&text);
    return value;
}

static void wait_failed(struct fixture *f, unsigned n)
{
    static const char failures[] = "flamegrid_access_issuer_fetch_failures_total";

    for (unsigned i = 0; counted(f, failures) < n && i < TRIES; i++)
        (void)usleep(TRY_US);
    assert_int_equal(counted(f, failures), n);
}

/* ---- tests ---- */

static void tokens_wait_for_keys_and_are_judged_then(void **state)
{
    struct fixture *f = *state;

    start(f);
    wait_for(f, "RS256", FG_OK);
    assert_int_equal(judge(f, "ES256"), FG_OK);
    assert_int_equal(judge(f, "EdDSA"), FG_OK);
    assert_int_equal(judge(f, "expired 61 s ago"), FG_E_DENIED);
    assert_int_equal(judge(f, "wrong aud"), FG_E_DENIED);
    assert_int_equal(judge(f, "wrong iss"), FG_E_DENIED);
    assert_int_equal(judge(f, "HS256 with the public key (PEM)"), FG_E_DENIED);
    assert_int_equal(judge(f, "empty"), FG_E_DENIED);
    wait_asked(f, 1);
    assert_int_equal(atomic_load(&f->authorized), 1);
}

static void without_keys_nobody_is_denied(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->manner, NO_KEYS);
    start(f);
    wait_asked(f, 1);
    assert_int_equal(judge(f, "RS256"), FG_E_UNAVAILABLE);
    assert_int_equal(judge(f, "a stranger's key with a known kid"), FG_E_UNAVAILABLE);
    assert_int_equal(judge(f, "wrong iss"), FG_E_DENIED);
}

static void a_token_is_verified_once(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_identity) *first = NULL, *second = NULL, *other = NULL;
    struct fg_err err;

    start(f);
    wait_for(f, "RS256", FG_OK);
    assert_int_equal(verify(f, "RS256", 1, &first, &err), FG_OK);
    assert_int_equal(verify(f, "RS256", 1, &second, &err), FG_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(counted(f, "flamegrid_access_jwt_verified_total"), 1);
    assert_int_equal(counted(f, "flamegrid_access_jwt_remembered_total"), 2);
    assert_int_equal(first->n_roles, 2);
    assert_true(fg_slice_is(first->roles[0].tenants, "user-1")); /* by tenant_claim */
    assert_true(fg_slice_is(first->roles[1].tenants, "team-*"));
    /* Other bindings: other roles, without another look at the signature. */
    assert_int_equal(verify(f, "RS256", 2, &other, &err), FG_OK);
    assert_int_equal(other->n_roles, 1);
    assert_int_equal(counted(f, "flamegrid_access_jwt_verified_total"), 1);
}

static void an_unknown_kid_is_denied_after_a_fetch(void **state)
{
    static const char stranger[] = "a stranger's key in jwk, another kid";
    struct fixture *f = *state;

    start(f);
    wait_for(f, "RS256", FG_OK);
    /* The keys are a moment old: its key may be younger. */
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(judge(f, stranger), FG_E_UNAVAILABLE);
    assert_int_equal(atomic_load(&f->asked), 1);
    fg_clock_manual_advance(&f->clock, 11 * FG_SECOND_NS);
    assert_int_equal(judge(f, stranger), FG_E_UNAVAILABLE);
    wait_for(f, stranger, FG_E_DENIED);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(judge(f, stranger), FG_E_DENIED);
    wait_asked(f, 2);
    /* From then on always, also when it causes another fetch. */
    fg_clock_manual_advance(&f->clock, 61 * FG_SECOND_NS);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(judge(f, stranger), FG_E_DENIED);
    wait_asked(f, 3);
    assert_int_equal(judge(f, "RS256"), FG_OK);
}

static void a_new_key_is_never_denied(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->manner, FEWER_KEYS); /* without that of RS256 */
    start(f);
    wait_for(f, "ES256", FG_OK);
    atomic_store(&f->manner, KEYS);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(judge(f, "RS256"), FG_E_UNAVAILABLE);
    fg_clock_manual_advance(&f->clock, 11 * FG_SECOND_NS);
    assert_int_equal(judge(f, "RS256"), FG_E_UNAVAILABLE);
    wait_for(f, "RS256", FG_OK);
    wait_asked(f, 2);
}

static void a_withdrawn_key_takes_its_tokens_along(void **state)
{
    struct fixture *f = *state;

    start(f);
    wait_for(f, "RS256", FG_OK);
    assert_int_equal(judge(f, "ES256"), FG_OK);
    assert_int_equal(judge(f, "RS256"), FG_OK); /* remembered */
    atomic_store(&f->manner, FEWER_KEYS);
    fg_clock_manual_advance(&f->clock, 61 * FG_SECOND_NS);
    assert_int_equal(judge(f, "a stranger's key in jwk, another kid"), FG_E_UNAVAILABLE);
    wait_for(f, "RS256", FG_E_DENIED); /* it was there: nobody waits for another look */
    assert_int_equal(judge(f, "ES256"), FG_OK);
}

static void bad_answers_leave_the_old_keys(void **state)
{
    static const enum manner manners[] = {NO_KEYS, ERROR, GARBAGE, HUGE_ANSWER, REDIRECT};
    struct fixture *f = *state;

    start(f);
    wait_for(f, "RS256", FG_OK);
    for (unsigned i = 0; i < FG_COUNT(manners); i++) {
        atomic_store(&f->manner, manners[i]);
        fg_clock_manual_advance(&f->clock, 61 * FG_SECOND_NS);
        assert_int_equal(judge(f, "a stranger's key in jwk, another kid"), FG_E_UNAVAILABLE);
        wait_failed(f, i + 1);
        /* Nobody knows whether the issuer has a key for it now. */
        assert_int_equal(judge(f, "a stranger's key in jwk, another kid"), FG_E_UNAVAILABLE);
        assert_int_equal(judge(f, i % 2 == 0 ? "ES256" : "PS256"), FG_OK);
    }
}

static void an_issuer_that_is_away_for_a_day_vouches_for_nobody(void **state)
{
    struct fixture *f = *state;

    start(f);
    wait_for(f, "RS256", FG_OK);
    atomic_store(&f->manner, ERROR);
    fg_clock_manual_advance(&f->clock, 24 * FG_HOUR_NS - FG_SECOND_NS);
    assert_int_equal(judge(f, "ES256"), FG_OK);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(judge(f, "PS256"), FG_E_UNAVAILABLE);
}

/* Its document may name any place for the keys; our token goes only where the settings say. */
static void the_token_file_goes_to_one_origin(void **state)
{
    struct fixture *f = *state;
    const struct fg_issuer_config config = {.issuer = f->url,
                                            .audience = "flamegrid",
                                            .keys_url = "",
                                            .ca_file = "",
                                            .token_file = f->token_file,
                                            .tenant_claim = ""};
    fg_auto(fg_arena) *arena = fg_arena_create(FG_DISCOVERY_ARENA_BYTES);
    struct fg_discovery discovery;
    struct fg_err err;

    assert_int_equal(create(f, &config, &err), FG_OK);
    assert_int_equal(fg_issuers_discovery(f->issuers, f->url, arena, &discovery, &err),
                     FG_E_UNAVAILABLE);
    assert_int_equal(fg_issuers_start(f->issuers, &err), FG_OK);
    wait_asked(f, 2); /* the document from 127.0.0.1, the keys from localhost */
    assert_int_equal(atomic_load(&f->authorized), 1);
    assert_int_equal(fg_issuers_discovery(f->issuers, f->url, arena, &discovery, &err), FG_OK);
    assert_non_null(strstr(discovery.token, "/token"));
    assert_non_null(strstr(discovery.end_session, "/end"));
    assert_null(discovery.device);
}

static void faults_of_settings_are_named(void **state)
{
    static const struct {
        struct fg_issuer_config config;
        const char *why;
    } cases[] = {
        {{"http://issuer.example", "a", "", "", "", "", false}, "https"},
        {{"", "a", "", "", "", "", false}, "https"},
        {{"https://i", "", "", "", "", "", false}, "audience"},
        {{"https://i", "a", "ftp://i", "", "", "", false}, "keys_url"},
        {{"https://i", "a", "", "", "", "/a~", false}, "tenant_claim"},
    };
    struct fixture *f = *state;
    struct fg_err err;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        assert_int_equal(create(f, &cases[i].config, &err), FG_E_INVALID);
        print_message("  %s\n", err.msg);
        assert_non_null(strstr(err.msg, cases[i].why));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tokens_wait_for_keys_and_are_judged_then, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_keys_nobody_is_denied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_token_is_verified_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_withdrawn_key_takes_its_tokens_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_kid_is_denied_after_a_fetch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_key_is_never_denied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_answers_leave_the_old_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_issuer_that_is_away_for_a_day_vouches_for_nobody, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_token_file_goes_to_one_origin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(faults_of_settings_are_named, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
