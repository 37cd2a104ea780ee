/*
 * The server of http_run.h under TLS, with certificates of its own, and OpenSSL's client. For
 * cmocka: what must not fail is asserted.
 */
#ifndef FG_TESTS_LIB_TLS_RUN_H
#define FG_TESTS_LIB_TLS_RUN_H

#include "common/net/tls.h"
#include "tests/lib/certs.h"
#include "tests/lib/http_run.h"

#include <openssl/ssl.h>

struct tls_run {
    struct http_run *run;
    struct fg_registry *registry; /* of the certificates; the server has its own */
    struct fg_tls_context *context;
    char folder[32], cert_file[64], key_file[64], ca_file[64];
    struct cert ca, server, client, stranger;
};

/* For cmocka's setup and teardown. Clients' certificates are asked for in two of them. */
int tls_setup(void **state);
int tls_setup_optional(void **state);
int tls_setup_require(void **state);
int tls_setup_hasty(void **state);  /* timeouts of a second and less */
int tls_setup_narrow(void **state); /* 2 connections, 2 requests at a time */
int tls_teardown(void **state);

/* The server's files, for another context. */
struct fg_tls_config tls_files_of(const struct tls_run *f);
/* Is, or becomes, the line one of the certificates' metrics? */
void tls_expect_metric(const struct tls_run *f, const char *line);

/* --- clients --- */

struct tls_client {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
};

struct tls_wish {
    const char *alpn; /* "\2h2\x8http/1.1"; NULL: none */
    int version;      /* 0: any */
    const struct cert *cert;
    SSL_SESSION *session;
};

/* Connected, and nothing said. */
void tls_client_init(struct tls_run *f, struct tls_client *client, const struct tls_wish *wish);
/* false: refused. In TLS 1.3 a client may learn of it only when it reads. */
bool tls_client_open(struct tls_run *f, struct tls_client *client, struct tls_wish wish);
void tls_client_close(struct tls_client *client);

void tls_say(struct tls_client *client, const char *text);
/* Head and body of an answer as text; the head has to say how long the body is. */
void tls_hear(struct tls_client *client, char *out, size_t size);
void tls_expect(struct tls_client *client, const char *request, const char *status,
                const char *body);

/* A connection with one request. */
void tls_expect_works(struct tls_run *f, struct tls_wish wish);
/* Refused in the handshake, or with the first thing that is read. */
void tls_expect_refused(struct tls_run *f, struct tls_wish wish);

#endif
