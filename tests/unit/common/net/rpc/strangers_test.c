/* Tests that only peers may call: secrets, services that certificates name, addresses in the clear.
 */
#include "common/base/time.h"
#include "tests/lib/remove_tree.h"
#include "tests/lib/rpc_run.h"
#include "tests/unit/common/net/rpc/side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define OLD_SECRET "0123456789abcdef0123456789abcdef"
#define NEW_SECRET "fedcba9876543210fedcba9876543210"

struct fixture {
    char folder[64];
    struct cert ca;
    struct side server_side, client_side;
    struct fg_registry *registry;
    struct fg_rpc_server *server;
    unsigned served;
    char url[RPC_RUN_URL_BYTES];
    struct fg_err err;
};

/* text NULL: the file stays as it is. */
static void use_secret(struct side *side, const char *text)
{
    if (text != NULL)
        side_write_text(side->files[SIDE_SECRET], text);
    side_use_secret(side);
}

static void use_cert(struct fixture *f, struct side *side, const char *name)
{
    static char domain[] = "flamegrid";

    side_write_cert(side, name, &f->ca, &f->ca, 10);
    side_use_cert(side);
    side->settings.tls_role_domain = domain;
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    (void)snprintf(f->folder, sizeof f->folder, "/tmp/fg_rpc_strangers.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->ca = cert_make("authority", NULL, 10);
    f->registry = fg_registry_create();
    side_init(&f->server_side, f->folder, "server");
    side_init(&f->client_side, f->folder, "client");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_rpc_server_destroy(f->server);
    fg_rpc_destroy(f->server_side.rpc);
    fg_rpc_destroy(f->client_side.rpc);
    fg_registry_destroy(f->registry);
    cert_free(&f->ca);
    assert_int_equal(remove_tree(f->folder), 0);
    free(f);
    return 0;
}

static void start_server(struct fixture *f)
{
    side_open(&f->server_side, f->registry);
    f->server = fg_rpc_server_create(f->server_side.rpc, 4);
    fg_rpc_server_handle(f->server, FG_RPC_PUSH, rpc_run_echo, &f->served);
    fg_rpc_server_handle(f->server, FG_RPC_SELECT, rpc_run_echo, &f->served);
    rpc_run_url("tls+tcp", f->url);
    if (fg_rpc_server_start(f->server, f->url, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
}

/* What comes of a call of a new process with the client's settings. FG_E_UNAVAILABLE: it gets no
 * connection, which takes some tries to say. */
static enum fg_code call_as_client(struct fixture *f, enum fg_rpc_method method)
{
    enum fg_code code = FG_E_UNAVAILABLE;
    struct fg_peer *peer;

    side_open(&f->client_side, NULL);
    if (fg_peer_dial(f->client_side.rpc, f->url, 4, &peer, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
    for (unsigned i = 0; i < 4 && code == FG_E_UNAVAILABLE; i++) {
        struct fg_call call = rpc_run_call(method, 5 * FG_SECOND_NS);

        code = fg_peer_call(peer, &call);
        f->err = call.err;
        fg_call_done(peer, &call);
    }
    fg_peer_destroy(peer);
    fg_rpc_destroy(fg_take(f->client_side.rpc));
    return code;
}

/* --- secrets --- */

static void the_same_secret_gets_through(void **state)
{
    struct fixture *f = *state;

    use_secret(&f->server_side, OLD_SECRET "\n");
    use_secret(&f->client_side, "# ours\n\n  " OLD_SECRET "  \n");
    start_server(f);
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_OK);
    assert_int_equal(call_as_client(f, FG_RPC_SELECT), FG_OK);
    assert_int_equal(f->served, 2);
}

static void a_wrong_secret_is_refused(void **state)
{
    struct fixture *f = *state;

    use_secret(&f->server_side, OLD_SECRET "\n");
    use_secret(&f->client_side, NEW_SECRET "\n");
    start_server(f);
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_E_UNAVAILABLE);
    assert_int_equal(f->served, 0);
}

/* A server with a certificate is none of a cluster with a secret, and the other way round. */
static void secrets_and_certificates_do_not_mix(void **state)
{
    struct fixture *f = *state;

    use_cert(f, &f->server_side, "ingester.flamegrid");
    use_secret(&f->client_side, OLD_SECRET "\n");
    start_server(f);
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_E_UNAVAILABLE);
    fg_rpc_server_destroy(f->server);
    fg_rpc_destroy(fg_take(f->server_side.rpc));
    use_secret(&f->server_side, OLD_SECRET "\n");
    use_cert(f, &f->client_side, "distributor.flamegrid");
    start_server(f);
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_E_UNAVAILABLE);
    assert_int_equal(f->served, 0);
}

/* Each of many peers begins to connect again and again at the same moments: nng must not stand
 * still while it ends what was begun before. */
static void every_refused_caller_gets_the_refusal(void **state)
{
    enum { PEERS = 6, ROUNDS = 12 };
    struct fixture *f = *state;
    struct fg_peer *peers[PEERS];
    struct fg_call calls[PEERS];
    int64_t begin_ns = fg_mono_ns(fg_clock_real());

    use_secret(&f->server_side, OLD_SECRET "\n");
    use_secret(&f->client_side, NEW_SECRET "\n");
    start_server(f);
    side_open(&f->client_side, NULL);
    for (unsigned i = 0; i < PEERS; i++)
        assert_int_equal(fg_peer_dial(f->client_side.rpc, f->url, 4, &peers[i], &f->err), FG_OK);
    for (unsigned n = 0; n < ROUNDS; n++)
        for (unsigned i = 0; i < PEERS; i++) {
            calls[i] = rpc_run_call(FG_RPC_PUSH, 5 * FG_SECOND_NS);
            (void)alarm(30); /* it would be for ever */
            assert_int_equal(fg_peer_call(peers[i], &calls[i]), FG_E_UNAVAILABLE);
            fg_call_done(peers[i], &calls[i]);
        }
    for (unsigned i = 0; i < PEERS; i++)
        fg_peer_destroy(peers[i]);
    (void)alarm(0);
    assert_true(fg_mono_ns(fg_clock_real()) - begin_ns < 25 * FG_SECOND_NS);
}

static void secrets_change_one_side_after_another(void **state)
{
    struct fixture *f = *state;

    use_secret(&f->server_side, OLD_SECRET "\n");
    use_secret(&f->client_side, OLD_SECRET "\n");
    start_server(f);
    side_write_text(f->server_side.files[SIDE_SECRET], OLD_SECRET "\n" NEW_SECRET "\n");
    assert_true(fg_rpc_tls_reload(f->server_side.rpc));
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_OK);
    use_secret(&f->client_side, NEW_SECRET "\n" OLD_SECRET "\n");
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_OK);
    side_write_text(f->server_side.files[SIDE_SECRET], "short\n");
    assert_false(fg_rpc_tls_reload(f->server_side.rpc)); /* the ones before stay */
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_OK);
    side_write_text(f->server_side.files[SIDE_SECRET], NEW_SECRET "\n");
    assert_true(fg_rpc_tls_reload(f->server_side.rpc));
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_OK); /* or nng's prepared connection */
    use_secret(&f->client_side, OLD_SECRET "\n");
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_E_UNAVAILABLE);
}

static void invalid_secret_files_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "the file contains no secret"},
        {"# only this\n", "the file contains no secret"},
        {"0123456789abcdef0123456789abcde\n", "a secret must have at least 32 characters"},
        {OLD_SECRET "\nhunter2\n", "a secret must have at least 32 characters"},
        {OLD_SECRET "\n" OLD_SECRET "\n" OLD_SECRET "\n" OLD_SECRET "\n" OLD_SECRET "\n",
         "a file may hold at most 4 secrets"},
    };
    struct fixture *f = *state;
    struct fg_rpc *rpc;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        use_secret(&f->client_side, cases[i].text);
        assert_int_equal(fg_rpc_create(&f->client_side.settings, NULL, &rpc, &f->err),
                         FG_E_INVALID);
        if (strstr(f->err.msg, cases[i].says) == NULL ||
            strstr(f->err.msg, "rpc.secret_file \"") == NULL)
            fail_msg("\"%s\" does not say \"%s\"", f->err.msg, cases[i].says);
        assert_null(strstr(f->err.msg, "0123456789"));
        assert_null(strstr(f->err.msg, "hunter2"));
    }
    use_secret(&f->client_side, OLD_SECRET "\n");
    f->client_side.settings.tls_cert_file = f->client_side.files[SIDE_CERT];
    assert_int_equal(fg_rpc_create(&f->client_side.settings, NULL, &rpc, &f->err), FG_E_INVALID);
    assert_non_null(strstr(f->err.msg, "set only one kind"));
}

/* --- handshakes that are never complete --- */

static void silent_connections_keep_no_caller_out(void **state)
{
    struct fixture *f = *state;
    int fds[RPC_RUN_SILENT];
    unsigned before, most;

    use_secret(&f->server_side, OLD_SECRET "\n");
    use_secret(&f->client_side, OLD_SECRET "\n");
    start_server(f);
    before = rpc_run_open_files();
    most = before + RPC_RUN_SILENT + RPC_RUN_SILENT_MAX;
    rpc_run_connect_silently(f->url, fds);
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_OK);
    assert_in_range(rpc_run_await_files(most), before + RPC_RUN_SILENT, most);
    for (unsigned i = 0; i < RPC_RUN_SILENT; i++)
        (void)close(fds[i]);
}

/* --- services in certificates --- */

static void certificates_name_who_may_call(void **state)
{
    static const struct {
        const char *name;
        enum fg_rpc_method method;
        const char *says; /* NULL: it is answered */
    } cases[] = {
        {"distributor.flamegrid", FG_RPC_PUSH, NULL},
        {"Distributor.FlameGrid", FG_RPC_PING, NULL}, /* names have no case */
        {"distributor.flamegrid", FG_RPC_SELECT, "may not make a "},
        {"querier.flamegrid", FG_RPC_SELECT, NULL},
        {"querier.flamegrid", FG_RPC_PUSH, "may not make a "},
        {"ingester.flamegrid", FG_RPC_PUSH, "may not make a "},
        {"compactor.flamegrid", FG_RPC_SELECT, "may not make a "},
        {"compactor.flamegrid", FG_RPC_PING, NULL},
        {"somebody", FG_RPC_PING, ""},
        {"distributor.example", FG_RPC_PUSH, ""},
        {"distributor.flamegrid.example", FG_RPC_PUSH, ""},
        {"*.flamegrid", FG_RPC_PUSH, ""},
    };
    struct fixture *f = *state;

    use_cert(f, &f->server_side, "ingester.flamegrid");
    start_server(f);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        unsigned served = f->served;
        enum fg_code code;

        use_cert(f, &f->client_side, cases[i].name);
        code = call_as_client(f, cases[i].method);
        if (code != (cases[i].says == NULL ? FG_OK : FG_E_UNAVAILABLE) ||
            (cases[i].says != NULL && strstr(f->err.msg, cases[i].says) == NULL))
            fail_msg("%s, method %d: %s", cases[i].name, cases[i].method, f->err.msg);
        assert_int_equal(f->served, served + (code == FG_OK && cases[i].method != FG_RPC_PING));
    }
}

static void a_distributor_certificate_may_not_make_calls_of_ingesters(void **state)
{
    struct fixture *f = *state;

    use_cert(f, &f->server_side, "distributor.flamegrid");
    use_cert(f, &f->client_side, "distributor.flamegrid");
    start_server(f);
    assert_int_equal(call_as_client(f, FG_RPC_PUSH), FG_E_UNAVAILABLE);
    assert_int_equal(f->served, 0);
}

/* --- in the clear --- */

static void cleartext_off_loopback_needs_rpc_insecure(void **state)
{
    static const struct {
        const char *url;
        bool loopback;
    } cases[] = {
        {"tcp://0.0.0.0:0", false},  {"tcp://:0", false},
        {"tcp://*:0", false},        {"tcp://[::]:0", false},
        {"tcp4://0.0.0.0:0", false}, {"tcp://127.0.0.1.example:0", false},
        {"tcp://127.0.0.1:0", true}, {"tcp://127.9.9.9:0", true},
        {"tcp://localhost:0", true}, {"tcp://localhost.example:0", false},
    };
    struct fixture *f = *state;

    side_open(&f->server_side, NULL);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_rpc_server *server = fg_rpc_server_create(f->server_side.rpc, 1);
        enum fg_code code = fg_rpc_server_start(server, cases[i].url, &f->err);

        if (cases[i].loopback != (code == FG_OK))
            fail_msg("%s: %d", cases[i].url, code);
        if (!cases[i].loopback)
            assert_non_null(strstr(f->err.msg, "rpc.insecure: true"));
        fg_rpc_server_destroy(server);
    }
    f->server_side.settings.insecure = true;
    f->server = fg_rpc_server_create(f->server_side.rpc, 1);
    assert_int_equal(fg_rpc_server_start(f->server, "tcp://0.0.0.0:0", &f->err), FG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_secret_gets_through, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_secret_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(secrets_and_certificates_do_not_mix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_refused_caller_gets_the_refusal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(secrets_change_one_side_after_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(invalid_secret_files_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(silent_connections_keep_no_caller_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(certificates_name_who_may_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_distributor_certificate_may_not_make_calls_of_ingesters,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(cleartext_off_loopback_needs_rpc_insecure, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
