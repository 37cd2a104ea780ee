/* Calls in TLS: who is let in, and certificates that change. */
#include "common/base/time.h"
#include "tests/lib/remove_tree.h"
#include "tests/lib/rpc_run.h"
#include "tests/unit/common/net/rpc/side.h"

#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char folder[64];
    struct cert ca, other_ca;
    struct side server_side, client_side;
    struct fg_rpc_server *server;
    struct fg_registry *registry;
    char url[RPC_RUN_URL_BYTES];
    struct fg_err err;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    (void)snprintf(f->folder, sizeof f->folder, "/tmp/fg_rpc_tls.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->ca = cert_make("authority", NULL, 10);
    f->other_ca = cert_make("another authority", NULL, 10);
    f->registry = fg_registry_create();
    side_init(&f->server_side, f->folder, "server");
    side_init(&f->client_side, f->folder, "client");
    side_use_cert(&f->server_side);
    side_use_cert(&f->client_side);
    side_write_cert(&f->server_side, "flamegrid", &f->ca, &f->ca, 10);
    side_write_cert(&f->client_side, "flamegrid", &f->ca, &f->ca, 10);
    rpc_run_url("tls+tcp", f->url);
    side_open(&f->server_side, f->registry);
    f->server = fg_rpc_server_create(f->server_side.rpc, 4);
    fg_rpc_server_handle(f->server, FG_RPC_PUSH, rpc_run_echo, NULL);
    if (fg_rpc_server_start(f->server, f->url, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
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
    cert_free(&f->other_ca);
    assert_int_equal(remove_tree(f->folder), 0);
    free(f);
    return 0;
}

static struct fg_peer *dial(struct fixture *f)
{
    struct fg_peer *peer;

    if (fg_peer_dial(f->client_side.rpc, f->url, 4, &peer, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
    return peer;
}

static enum fg_code call_once(struct fg_peer *peer)
{
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, 5 * FG_SECOND_NS);
    enum fg_code code = fg_peer_call(peer, &call);

    if (code == FG_OK)
        assert_true(fg_slice_is(call.reply_payload, "payload"));
    fg_call_done(peer, &call);
    return code;
}

/* Dials with what the client's files are now; a few tries, since connecting takes a moment. */
static bool gets_through(struct fixture *f)
{
    struct fg_peer *peer = dial(f);
    bool ok = false;

    for (unsigned i = 0; i < 3 && !ok; i++) {
        enum fg_code code = call_once(peer);

        assert_true(code == FG_OK || code == FG_E_UNAVAILABLE);
        ok = code == FG_OK;
    }
    fg_peer_destroy(peer);
    return ok;
}

static void calls_between_certified_services_succeed(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, 20 * FG_SECOND_NS);
    size_t len = (5 << 20) + 3;
    uint8_t *bytes = fg_malloc(len);
    struct fg_peer *peer;

    side_open(&f->client_side, NULL);
    peer = dial(f);
    rpc_run_connected(peer);
    assert_int_equal(call_once(peer), FG_OK);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    call.payload = fg_bytes(bytes, len);
    assert_int_equal(fg_peer_call(peer, &call), FG_OK);
    assert_true(fg_slice_eq(call.reply_payload, call.payload));
    fg_call_done(peer, &call);
    free(bytes);
    fg_peer_destroy(peer);
}

static void client_of_another_authority(void **state)
{
    struct fixture *f = *state;

    side_write_cert(&f->client_side, "flamegrid", &f->other_ca, &f->ca, 10);
    side_open(&f->client_side, NULL);
    assert_false(gets_through(f));
}

static void server_of_another_authority(void **state)
{
    struct fixture *f = *state;

    side_write_cert(&f->client_side, "flamegrid", &f->ca, &f->other_ca, 10);
    side_open(&f->client_side, NULL);
    assert_false(gets_through(f));
}

static void client_that_has_expired(void **state)
{
    struct fixture *f = *state;

    side_write_cert(&f->client_side, "flamegrid", &f->ca, &f->ca, -3);
    side_open(&f->client_side, NULL);
    assert_false(gets_through(f));
}

static void server_of_another_name(void **state)
{
    struct fixture *f = *state;
    char wrong[][20] = {"ingester.example", "127.0.0.2", "127.0.0.1.example"};
    char right[] = "localhost";

    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        f->client_side.settings.tls_server_name = wrong[i];
        side_open(&f->client_side, NULL);
        assert_false(gets_through(f));
        fg_rpc_destroy(f->client_side.rpc);
    }
    f->client_side.settings.tls_server_name = right; /* which is not the address's */
    side_open(&f->client_side, NULL);
    assert_true(gets_through(f));
}

static void client_without_a_certificate(void **state)
{
    struct fixture *f = *state;
    nng_socket socket;
    nng_dialer dialer;
    nng_msg *msg;

    assert_int_equal(nng_req0_open(&socket), 0);
    assert_int_equal(nng_dialer_create(&dialer, socket, f->url), 0);
    assert_int_equal(
        nng_dialer_set_string(dialer, NNG_OPT_TLS_CA_FILE, f->client_side.files[SIDE_CA]), 0);
    assert_int_not_equal(nng_dialer_start(dialer, 0), 0);
    assert_int_equal(nng_socket_set_ms(socket, NNG_OPT_SENDTIMEO, 300), 0);
    assert_int_equal(nng_msg_alloc(&msg, 1), 0);
    assert_int_equal(nng_sendmsg(socket, msg, 0), NNG_ETIMEDOUT); /* never connected */
    nng_msg_free(msg);
    assert_int_equal(nng_close(socket), 0);
}

/* The same port in the clear, and TLS where nobody expects it. */
static void cleartext_and_tls_do_not_mix(void **state)
{
    struct fixture *f = *state;
    struct fg_rpc_server *plain = fg_rpc_server_create(NULL, 1);
    char url[RPC_RUN_URL_BYTES];
    struct fg_peer *peer;

    assert_int_equal(fg_peer_dial(NULL, f->url + strlen("tls+"), 1, &peer, &f->err), FG_OK);
    assert_int_equal(call_once(peer), FG_E_UNAVAILABLE);
    fg_peer_destroy(peer);

    rpc_run_url("tls+tcp", url);
    assert_int_equal(fg_rpc_server_start(plain, url + strlen("tls+"), &f->err), FG_OK);
    side_open(&f->client_side, NULL);
    assert_int_equal(fg_peer_dial(f->client_side.rpc, url, 1, &peer, &f->err), FG_OK);
    assert_int_equal(call_once(peer), FG_E_UNAVAILABLE);
    fg_peer_destroy(peer);
    fg_rpc_server_destroy(plain);
    assert_true(gets_through(f)); /* neither did the listener any harm */
}

static void addresses_must_match_the_settings(void **state)
{
    struct fixture *f = *state;
    struct fg_rpc_server *server;
    struct fg_peer *peer;

    side_open(&f->client_side, NULL);
    assert_int_equal(fg_peer_dial(f->client_side.rpc, "tcp://h:1", 1, &peer, &f->err),
                     FG_E_INVALID);
    assert_string_equal(f->err.msg, "peer tcp://h:1: address is cleartext although "
                                    "rpc.tls_cert_file is set; use tls+tcp://h:1");
    assert_int_equal(fg_peer_dial(NULL, "tls+tcp://h:1", 1, &peer, &f->err), FG_E_INVALID);
    assert_string_equal(f->err.msg, "peer tls+tcp://h:1: needs rpc.secret_file, or "
                                    "rpc.tls_cert_file, rpc.tls_key_file and rpc.tls_ca_file");
    server = fg_rpc_server_create(f->client_side.rpc, 1);
    assert_int_equal(fg_rpc_server_start(server, "tcp://127.0.0.1:1", &f->err), FG_E_INVALID);
    fg_rpc_server_destroy(server);
    server = fg_rpc_server_create(NULL, 1);
    assert_int_equal(fg_rpc_server_start(server, f->url, &f->err), FG_E_INVALID);
    fg_rpc_server_destroy(server);
}

/* --- files --- */

static void expect_refused(struct fixture *f, const char *text)
{
    struct fg_rpc *rpc;

    assert_int_equal(fg_rpc_create(&f->client_side.settings, NULL, &rpc, &f->err), FG_E_INVALID);
    if (strstr(f->err.msg, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", f->err.msg, text);
}

static void broken_files_stop_the_start(void **state)
{
    struct fixture *f = *state;
    struct side *side = &f->client_side;
    char none[] = "";
    char *key_file = side->settings.tls_key_file;

    side->settings.tls_key_file = none;
    expect_refused(f, "needs all of rpc.tls_cert_file, rpc.tls_key_file and rpc.tls_ca_file");
    side->settings.tls_key_file = f->server_side.files[SIDE_KEY];
    expect_refused(f, "key values mismatch");
    side->settings.tls_key_file = side->files[SIDE_CA];
    expect_refused(f, "rpc.tls_key_file \"");
    side->settings.tls_key_file = key_file;
    side_write_text(side->files[SIDE_CA], "");
    expect_refused(f, "ca.pem\": no usable PEM object in the file");
    side_write_text(side->files[SIDE_CA],
                    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    expect_refused(f, "rpc.tls_ca_file \"");
    side_write_text(side->files[SIDE_CERT], "hello");
    expect_refused(f, "rpc.tls_cert_file \"");
    (void)unlink(side->files[SIDE_CERT]);
    expect_refused(f, "No such file");
}

/* A client whose certificate, of the right authority, is about this key. Takes the key over. */
static void write_client_of_key(struct fixture *f, EVP_PKEY *key)
{
    struct cert cert = cert_make("flamegrid", &f->ca, 10);

    assert_non_null(key);
    EVP_PKEY_free(cert.key);
    cert.key = key;
    assert_int_equal(X509_set_pubkey(cert.x509, cert.key), 1);
    assert_true(X509_sign(cert.x509, f->ca.key, EVP_sha256()) > 0);
    cert_write(&cert, f->client_side.files[SIDE_CERT], f->client_side.files[SIDE_KEY]);
    cert_free(&cert);
}

static void keys_of_all_kinds(void **state)
{
    struct fixture *f = *state;
    EVP_PKEY *keys[] = {EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), EVP_EC_gen("P-384"),
                        EVP_RSA_gen(2048)};

    for (size_t i = 0; i < FG_COUNT(keys); i++) {
        write_client_of_key(f, keys[i]);
        side_open(&f->client_side, NULL);
        assert_true(gets_through(f));
        fg_rpc_destroy(f->client_side.rpc);
        f->client_side.rpc = NULL;
    }
}

/* OpenSSL refuses it at the handshake as well; better before anything is sent. */
static void a_key_that_is_too_short_stops_the_start(void **state)
{
    struct fixture *f = *state;

    write_client_of_key(f, EVP_RSA_gen(1024));
    expect_refused(f, "ee key too small");
}

static void append_cert(const char *path, const struct cert *cert)
{
    FILE *file = fopen(path, "ae");

    fg_assert(file != NULL && PEM_write_X509(file, cert->x509) == 1 && fclose(file) == 0);
}

/* The server's certificate is of an authority in between, which either it shows or the client has.
 */
static void intermediate_authorities_are_accepted(void **state)
{
    struct fixture *f = *state;
    struct cert between = cert_make_authority("in between", &f->ca, 10);
    struct cert cert = cert_make("flamegrid", &between, 10);

    cert_write(&cert, f->server_side.files[SIDE_CERT], f->server_side.files[SIDE_KEY]);
    assert_true(fg_rpc_tls_reload(f->server_side.rpc));
    side_open(&f->client_side, NULL);
    (void)gets_through(f); /* the one connection that nng has prepared with the old set */
    assert_false(gets_through(f));
    append_cert(f->server_side.files[SIDE_CERT], &between);
    assert_true(fg_rpc_tls_reload(f->server_side.rpc));
    (void)gets_through(f);
    assert_true(gets_through(f));

    cert_write(&cert, f->server_side.files[SIDE_CERT], f->server_side.files[SIDE_KEY]);
    assert_true(fg_rpc_tls_reload(f->server_side.rpc));
    cert_write(&between, f->client_side.files[SIDE_CA], NULL);
    assert_true(fg_rpc_tls_reload(f->client_side.rpc));
    (void)gets_through(f);
    assert_true(gets_through(f));
    cert_free(&cert);
    cert_free(&between);
}

/* --- versions of TLS --- */

static int connect_to(const char *url)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
    fg_assert(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

/* What else than nng may call: says hello as nng does (SP over TCP, of a REQ). Is it answered? */
static bool greets(struct fixture *f, int version)
{
    static const uint8_t hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    uint8_t answer[sizeof hello];
    int fd = connect_to(f->url);
    bool greeted;
    SSL *ssl;

    SSL_CTX_set_security_level(ctx, 0); /* else it would not even ask for TLS 1.1 */
    fg_assert(
        SSL_CTX_set_min_proto_version(ctx, version) == 1 &&
        SSL_CTX_set_max_proto_version(ctx, version) == 1 &&
        SSL_CTX_use_certificate_file(ctx, f->client_side.files[SIDE_CERT], SSL_FILETYPE_PEM) == 1 &&
        SSL_CTX_use_PrivateKey_file(ctx, f->client_side.files[SIDE_KEY], SSL_FILETYPE_PEM) == 1);
    ssl = SSL_new(ctx);
    fg_assert(ssl != NULL && SSL_set_fd(ssl, fd) == 1);
    greeted = SSL_connect(ssl) == 1 && SSL_write(ssl, hello, sizeof hello) == sizeof hello &&
              SSL_read(ssl, answer, sizeof answer) == sizeof answer;
    if (greeted)
        assert_int_equal(SSL_version(ssl), version);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    (void)close(fd);
    return greeted;
}

static void versions_of_tls(void **state)
{
    struct fixture *f = *state;

    assert_true(greets(f, TLS1_3_VERSION));
    assert_true(greets(f, TLS1_2_VERSION));
    assert_false(greets(f, TLS1_1_VERSION));
}

/* --- changes --- */

/* Both move to another authority; who does not, stays outside. */
static void takes_over_new_files(void **state)
{
    struct fixture *f = *state;
    struct fg_peer *before;

    side_open(&f->client_side, NULL);
    assert_false(fg_rpc_tls_reload(f->server_side.rpc));
    before = dial(f);
    rpc_run_connected(before);
    side_write_cert(&f->server_side, "flamegrid", &f->other_ca, &f->other_ca, 10);
    assert_true(fg_rpc_tls_reload(f->server_side.rpc));
    assert_false(fg_rpc_tls_reload(f->server_side.rpc));
    assert_int_equal(call_once(before), FG_OK); /* that connection stands */
    (void)gets_through(f); /* the one connection that nng has prepared with the old set */
    assert_false(gets_through(f));
    side_write_cert(&f->client_side, "flamegrid", &f->other_ca, &f->other_ca, 10);
    assert_true(fg_rpc_tls_reload(f->client_side.rpc));
    assert_true(gets_through(f));
    fg_peer_destroy(before);
}

/* A dialer that is connecting in vain takes the new files as well. */
static void takes_over_new_files_while_dialling(void **state)
{
    struct fixture *f = *state;
    struct fg_peer *peer;

    side_write_cert(&f->client_side, "flamegrid", &f->other_ca, &f->ca, 10);
    side_open(&f->client_side, NULL);
    peer = dial(f);
    assert_int_equal(call_once(peer), FG_E_UNAVAILABLE);
    side_write_cert(&f->client_side, "flamegrid", &f->ca, &f->ca, 10);
    assert_true(fg_rpc_tls_reload(f->client_side.rpc));
    rpc_run_connected(peer);
    fg_peer_destroy(peer);
}

static void broken_new_files_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct fg_buf text;

    side_write_text(f->server_side.files[SIDE_KEY], "half a ke");
    assert_false(fg_rpc_tls_reload(f->server_side.rpc));
    (void)unlink(f->server_side.files[SIDE_KEY]);
    assert_false(fg_rpc_tls_reload(f->server_side.rpc));
    assert_false(fg_rpc_tls_reload(f->server_side.rpc)); /* not counted again */
    side_open(&f->client_side, NULL);
    assert_true(gets_through(f));

    fg_buf_init(&text, 64 * 1024);
    fg_registry_write(f->registry, &text);
    assert_true(fg_slice_search(fg_buf_slice(&text), "\nflamegrid_rpc_tls_reloads_total 0\n") !=
                SIZE_MAX);
    assert_true(fg_slice_search(fg_buf_slice(&text),
                                "\nflamegrid_rpc_tls_reload_failures_total 2\n") != SIZE_MAX);
    assert_true(fg_slice_search(fg_buf_slice(&text),
                                "\nflamegrid_reload_failed{file=\"rpc_tls\"} 1\n") != SIZE_MAX);
    assert_true(fg_slice_search(fg_buf_slice(&text),
                                "\nflamegrid_rpc_tls_certificate_expiry_timestamp_seconds ") !=
                SIZE_MAX);
    fg_buf_done(&text);
}

#define TLS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS(calls_between_certified_services_succeed),
        TLS(client_of_another_authority),
        TLS(server_of_another_authority),
        TLS(client_that_has_expired),
        TLS(server_of_another_name),
        TLS(client_without_a_certificate),
        TLS(cleartext_and_tls_do_not_mix),
        TLS(addresses_must_match_the_settings),
        TLS(broken_files_stop_the_start),
        TLS(keys_of_all_kinds),
        TLS(a_key_that_is_too_short_stops_the_start),
        TLS(intermediate_authorities_are_accepted),
        TLS(versions_of_tls),
        TLS(takes_over_new_files),
        TLS(takes_over_new_files_while_dialling),
        TLS(broken_new_files_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
