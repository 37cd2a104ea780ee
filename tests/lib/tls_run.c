#include "tests/lib/tls_run.h"

#include <openssl/err.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define ECHO_REQUEST "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"

/* --- fixture --- */

struct fg_tls_config tls_files_of(const struct tls_run *f)
{
    return (struct fg_tls_config){.cert_file = f->cert_file, .key_file = f->key_file};
}

static void make_files(struct tls_run *f)
{
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/fg-tls-XXXXXX");
    fg_assert(mkdtemp(f->folder) != NULL);
    (void)snprintf(f->cert_file, sizeof f->cert_file, "%s/cert.pem", f->folder);
    (void)snprintf(f->key_file, sizeof f->key_file, "%s/key.pem", f->folder);
    (void)snprintf(f->ca_file, sizeof f->ca_file, "%s/ca.pem", f->folder);
    f->ca = cert_make("ca", NULL, 10);
    f->server = cert_make("server", &f->ca, 10);
    f->client = cert_make("client", &f->ca, 10);
    f->stranger = cert_make("stranger", NULL, 10);
    cert_write(&f->server, f->cert_file, f->key_file);
    cert_write(&f->ca, f->ca_file, NULL);
}

static int setup_with(void **state, struct fg_http_config config, enum fg_tls_client_auth auth)
{
    struct tls_run *f = fg_new(struct tls_run);
    struct fg_tls_config tls;
    struct fg_err err;
    void *run;

    make_files(f);
    tls = tls_files_of(f);
    tls.client_auth = auth;
    tls.client_ca_file = auth == FG_TLS_CLIENT_NONE ? NULL : f->ca_file;
    f->registry = fg_registry_create();
    fg_assert(fg_tls_context_create(&tls, f->registry, &f->context, &err) == FG_OK);
    config.tls = f->context;
    fg_assert(run_setup_with(&run, &config) == 0);
    f->run = run;
    *state = f;
    return 0;
}

int tls_setup(void **state)
{
    return setup_with(state, (struct fg_http_config)FG_HTTP_CONFIG_DEFAULT, FG_TLS_CLIENT_NONE);
}

int tls_setup_optional(void **state)
{
    return setup_with(state, (struct fg_http_config)FG_HTTP_CONFIG_DEFAULT, FG_TLS_CLIENT_OPTIONAL);
}

int tls_setup_require(void **state)
{
    return setup_with(state, (struct fg_http_config)FG_HTTP_CONFIG_DEFAULT, FG_TLS_CLIENT_REQUIRE);
}

int tls_setup_hasty(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.handshake_timeout_ns = config.idle_timeout_ns = FG_SECOND_NS;
    config.write_timeout_ns = 200 * FG_MS_NS;
    return setup_with(state, config, FG_TLS_CLIENT_NONE);
}

int tls_setup_narrow(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.pipeline_max = 2;
    config.connections_max = config.connections_per_address_max = 2;
    return setup_with(state, config, FG_TLS_CLIENT_NONE);
}

int tls_teardown(void **state)
{
    struct tls_run *f = *state;
    void *run = f->run;

    (void)run_teardown(&run);
    fg_tls_context_destroy(f->context);
    fg_registry_destroy(f->registry);
    cert_free(&f->ca);
    cert_free(&f->server);
    cert_free(&f->client);
    cert_free(&f->stranger);
    (void)unlink(f->cert_file);
    (void)unlink(f->key_file);
    (void)unlink(f->ca_file);
    fg_assert(rmdir(f->folder) == 0);
    free(f);
    return 0;
}

void tls_expect_metric(const struct tls_run *f, const char *line)
{
    struct http_run run = {.registry = f->registry};

    if (!run_metric_becomes(&run, line))
        fail_msg("not counted: %s", line);
}

/* --- clients --- */

void tls_client_init(struct tls_run *f, struct tls_client *client, const struct tls_wish *wish)
{
    client->ctx = SSL_CTX_new(TLS_client_method());
    fg_assert(client->ctx != NULL);
    SSL_CTX_set_security_level(client->ctx, 0); /* so that old versions are offered at all */
    if (wish->version != 0) {
        fg_assert(SSL_CTX_set_min_proto_version(client->ctx, wish->version) == 1);
        fg_assert(SSL_CTX_set_max_proto_version(client->ctx, wish->version) == 1);
    }
    fg_assert(X509_STORE_add_cert(SSL_CTX_get_cert_store(client->ctx), f->ca.x509) == 1);
    SSL_CTX_set_verify(client->ctx, SSL_VERIFY_PEER, NULL);
    client->ssl = SSL_new(client->ctx);
    if (wish->alpn != NULL)
        fg_assert(SSL_set_alpn_protos(client->ssl, (const void *)wish->alpn,
                                      (unsigned)strlen(wish->alpn)) == 0);
    if (wish->cert != NULL)
        fg_assert(SSL_use_certificate(client->ssl, wish->cert->x509) == 1 &&
                  SSL_use_PrivateKey(client->ssl, wish->cert->key) == 1);
    if (wish->session != NULL)
        fg_assert(SSL_set_session(client->ssl, wish->session) == 1);
    client->fd = run_client(f->run);
    fg_assert(SSL_set_fd(client->ssl, client->fd) == 1);
}

/* false: refused. In TLS 1.3 a client may learn of it only when it reads. */
bool tls_client_open(struct tls_run *f, struct tls_client *client, struct tls_wish wish)
{
    tls_client_init(f, client, &wish);
    ERR_clear_error();
    return SSL_connect(client->ssl) == 1;
}

void tls_client_close(struct tls_client *client)
{
    SSL_free(client->ssl);
    SSL_CTX_free(client->ctx);
    (void)close(client->fd);
}

void tls_say(struct tls_client *client, const char *text)
{
    assert_int_equal(SSL_write(client->ssl, text, (int)strlen(text)), (int)strlen(text));
}

/* Head and body of an answer as text; the head has to say how long the body is. */
void tls_hear(struct tls_client *client, char *out, size_t size)
{
    size_t len = 0, want = SIZE_MAX;

    while (len < want) {
        int n = SSL_read(client->ssl, out + len, (int)FG_MIN(size - 1 - len, want - len));
        const char *end;

        assert_true(n > 0);
        len += (size_t)n;
        out[len] = '\0';
        end = strstr(out, "\r\n\r\n");
        if (end != NULL && want == SIZE_MAX)
            want =
                (size_t)(end + 4 - out) + strtoul(strstr(out, "Content-Length: ") + 16, NULL, 10);
        assert_true(want == SIZE_MAX || want < size);
    }
}

void tls_expect(struct tls_client *client, const char *request, const char *status,
                const char *body)
{
    char answer[4096];

    tls_say(client, request);
    tls_hear(client, answer, sizeof answer);
    assert_memory_equal(answer + 9, status, 3);
    assert_string_equal(strstr(answer, "\r\n\r\n") + 4, body);
}

void tls_expect_works(struct tls_run *f, struct tls_wish wish)
{
    struct tls_client client;

    assert_true(tls_client_open(f, &client, wish));
    tls_expect(&client, ECHO_REQUEST, "200", "1 /echo ");
    tls_client_close(&client);
}

/* Refused in the handshake, or with the first thing that is read. */
void tls_expect_refused(struct tls_run *f, struct tls_wish wish)
{
    struct tls_client client;
    char byte;

    if (tls_client_open(f, &client, wish)) {
        (void)SSL_write(client.ssl, ECHO_REQUEST, (int)strlen(ECHO_REQUEST));
        assert_true(SSL_read(client.ssl, &byte, 1) <= 0);
    }
    tls_client_close(&client);
}
