/* Certificates: what is read at the start, and what becomes of changed files. */
#include "tests/lib/tls_run.h"

#include <openssl/pem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static void expect_server(struct tls_run *f, const char *name)
{
    struct tls_client client;
    char text[64];

    assert_true(tls_client_open(f, &client, (struct tls_wish){0}));
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(client.ssl)),
                              NID_commonName, text, sizeof text);
    assert_string_equal(text, name);
    tls_client_close(&client);
}

static void test_reload(void **state)
{
    struct tls_run *f = *state;
    struct cert second = cert_make("second", &f->ca, 20), third = cert_make("third", &f->ca, 30);
    struct tls_client before;

    assert_true(tls_client_open(f, &before, (struct tls_wish){0}));
    expect_server(f, "server");
    assert_false(fg_tls_context_reload(f->context)); /* nothing has changed */
    cert_write(&second, f->cert_file, f->key_file);
    assert_true(fg_tls_context_reload(f->context));
    expect_server(f, "second");
    tls_expect(&before, GET("/echo"), "200", "1 /echo "); /* goes on as it began */
    tls_client_close(&before);
    tls_expect_metric(f, "flamegrid_tls_reloads_total 1\n");
    /* One file of two: broken until the other is there too. */
    cert_write(&third, f->cert_file, NULL);
    assert_false(fg_tls_context_reload(f->context));
    assert_false(fg_tls_context_reload(f->context)); /* counted and said once */
    expect_server(f, "second");
    tls_expect_metric(f, "flamegrid_tls_reload_failures_total 1\n");
    tls_expect_metric(f, "flamegrid_reload_failed{file=\"tls\"} 1\n");
    cert_write(&third, NULL, f->key_file);
    assert_true(fg_tls_context_reload(f->context));
    expect_server(f, "third");
    /* No file at all. */
    assert_int_equal(unlink(f->cert_file), 0);
    assert_false(fg_tls_context_reload(f->context));
    expect_server(f, "third");
    cert_write(&second, f->cert_file, f->key_file);
    assert_true(fg_tls_context_reload(f->context));
    expect_server(f, "second");
    tls_expect_metric(f, "flamegrid_tls_reload_failures_total 2\n");
    tls_expect_metric(f, "flamegrid_reload_failed{file=\"tls\"} 0\n");
    cert_free(&second);
    cert_free(&third);
}

/* The thread finds out by itself; and the end does not wait for its next look. */
static void test_reload_by_itself(void **state)
{
    struct tls_run *f = *state;
    struct fg_tls_config config = tls_files_of(f);
    struct fg_registry *registry = fg_registry_create();
    struct http_run run = {.registry = registry};
    struct cert second = cert_make("second", &f->ca, 20);
    struct fg_tls_context *context;
    struct fg_err err;

    config.check_ns = 10 * FG_MS_NS;
    assert_int_equal(fg_tls_context_create(&config, registry, &context, &err), FG_OK);
    cert_write(&second, f->cert_file, f->key_file);
    assert_true(run_metric_becomes(&run, "flamegrid_tls_reloads_total 1\n"));
    fg_tls_context_destroy(context);
    config.check_ns = 100 * FG_SECOND_NS;
    assert_int_equal(fg_tls_context_create(&config, NULL, &context, &err), FG_OK);
    fg_tls_context_destroy(context);
    fg_registry_destroy(registry);
    cert_free(&second);
}

static void test_expiry(void **state)
{
    struct tls_run *f = *state;
    struct cert old = cert_make("old", &f->ca, -1);
    struct tm tm;
    char line[128];

    cert_write(&old, f->cert_file, f->key_file);
    assert_true(fg_tls_context_reload(f->context)); /* with a warning: better than nothing */
    assert_int_equal(ASN1_TIME_to_tm(X509_get0_notAfter(old.x509), &tm), 1);
    (void)snprintf(line, sizeof line, "flamegrid_tls_certificate_expiry_timestamp_seconds %lld\n",
                   (long long)timegm(&tm));
    tls_expect_metric(f, line);
    cert_free(&old);
}

static void write_text(const char *file, const char *text)
{
    FILE *out = fopen(file, "we");

    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void expect_error(const struct fg_tls_config *config, const char *text)
{
    struct fg_tls_context *context;
    struct fg_err err;

    assert_int_equal(fg_tls_context_create(config, NULL, &context, &err), FG_E_INVALID);
    print_message("  %s\n", err.msg);
    assert_non_null(strstr(err.msg, text));
}

static void test_errors(void **state)
{
    struct tls_run *f = *state;
    struct fg_tls_config config = tls_files_of(f), good = config;
    BIO *encrypted;

    config.key_file = NULL;
    expect_error(&config, "both tls_cert_file and tls_key_file");
    config.key_file = "/nonexistent/key.pem";
    expect_error(&config, "tls_key_file \"/nonexistent/key.pem\": No such file");
    config.cert_file = "/nonexistent/cert.pem";
    expect_error(&config, "tls_cert_file \"/nonexistent/cert.pem\": No such file");
    config = good;
    config.client_ca_file = f->ca_file;
    expect_error(&config, "has no effect while tls_client_auth is none");
    config.client_ca_file = "";
    config.client_auth = FG_TLS_CLIENT_REQUIRE;
    expect_error(&config, "tls_client_auth needs tls_client_ca_file");
    config.client_ca_file = "/nonexistent/ca.pem";
    expect_error(&config, "tls_client_ca_file \"/nonexistent/ca.pem\": ");
    config.client_ca_file = f->key_file;
    expect_error(&config, "no usable PEM object");
    config = good;
    cert_write(&f->client, NULL, f->key_file);
    expect_error(&config, "key values mismatch");
    write_text(f->key_file, "nonsense\n");
    expect_error(&config, "no usable PEM object");
    /* A key under a password: an error, not a question on the terminal. */
    encrypted = BIO_new_file(f->key_file, "w");
    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(encrypted, f->server.key, EVP_aes_128_cbc(),
                                                   "secret", 6, NULL, NULL),
                     1);
    BIO_free(encrypted);
    expect_error(&config, "the key is encrypted");
    write_text(f->cert_file, "");
    expect_error(&config, "no usable PEM object");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tls_setup, tls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reload),
        TEST(test_reload_by_itself),
        TEST(test_expiry),
        TEST(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
