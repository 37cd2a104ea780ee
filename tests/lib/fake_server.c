#include "tests/lib/fake_server.h"

#include "common/base/buf.h"
#include "common/base/str.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 256 };

struct fake_connection {
    struct fake_server *server;
    int fd;
    SSL *ssl; /* NULL: without TLS */
    pthread_t thread;
    char kept[65536]; /* read already, of the next request */
    size_t n_kept;
};

struct fake_server {
    int fd;
    unsigned port;
    SSL_CTX *tls;
    fake_handler handler;
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock; /* of those below */
    struct fake_connection *connections[CONNECTIONS_MAX];
    size_t n;
    bool stopping;
};

/* ---- certificates ---- */

static void add_extension(X509 *cert, int kind, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    fg_assert(extension != NULL && X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static X509 *make_cert(EVP_PKEY *key)
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);

    fg_assert(X509_set_version(cert, 2) == 1 &&
              ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) == 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    fg_assert(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"fake", -1, -1,
                                         0) == 1);
    fg_assert(X509_set_issuer_name(cert, name) == 1 && X509_set_pubkey(cert, key) == 1);
    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(cert, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    fg_assert(X509_sign(cert, key, EVP_sha256()) > 0);
    return cert;
}

void fake_identity_create(struct fake_identity *identity)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = make_cert(key);
    FILE *file;

    (void)snprintf(identity->folder, sizeof identity->folder, "/tmp/flamegrid-test.XXXXXX");
    fg_assert(mkdtemp(identity->folder) != NULL);
    (void)snprintf(identity->cert, sizeof identity->cert, "%s/cert.pem", identity->folder);
    (void)snprintf(identity->key, sizeof identity->key, "%s/key.pem", identity->folder);
    file = fopen(identity->cert, "we");
    fg_assert(file != NULL && PEM_write_X509(file, cert) == 1);
    fg_assert(fclose(file) == 0);
    file = fopen(identity->key, "we");
    fg_assert(file != NULL && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1);
    fg_assert(fclose(file) == 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}

void fake_identity_destroy(struct fake_identity *identity)
{
    (void)unlink(identity->cert);
    (void)unlink(identity->key);
    (void)rmdir(identity->folder);
}

static SSL_CTX *make_tls(const struct fake_identity *identity, bool want_client)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());

    fg_assert(SSL_CTX_use_certificate_file(tls, identity->cert, SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_use_PrivateKey_file(tls, identity->key, SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_load_verify_locations(tls, identity->cert, NULL) == 1);
    if (want_client)
        SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return tls;
}

/* ---- bytes ---- */

static ssize_t read_some(struct fake_connection *connection, void *out, size_t size)
{
    if (connection->ssl != NULL)
        return SSL_read(connection->ssl, out, (int)size);
    return read(connection->fd, out, size);
}

bool fake_write(struct fake_connection *connection, struct fg_slice bytes)
{
    while (bytes.len > 0) {
        ssize_t n = connection->ssl != NULL
                        ? SSL_write(connection->ssl, bytes.ptr, (int)bytes.len)
                        : send(connection->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        bytes = fg_slice_sub(bytes, (size_t)n, bytes.len);
    }
    return true;
}

static size_t body_of(const char *head)
{
    const char *line = strcasestr(head, "\r\nContent-Length:");

    return line == NULL ? 0 : strtoul(line + strlen("\r\nContent-Length:"), NULL, 10);
}

/* How long the request at the front of what is kept is; 0: it is not complete. */
static size_t complete(struct fake_connection *connection)
{
    const char *end;
    size_t len;

    connection->kept[connection->n_kept] = '\0';
    end = strstr(connection->kept, "\r\n\r\n");
    if (end == NULL)
        return 0;
    len = (size_t)(end - connection->kept) + 4 + body_of(connection->kept);
    return len <= connection->n_kept ? len : 0;
}

bool fake_read(struct fake_connection *connection, char *request, size_t size)
{
    size_t len;

    while ((len = complete(connection)) == 0) {
        size_t room = sizeof connection->kept - 1 - connection->n_kept;
        ssize_t got;

        fg_assert(room > 0);
        got = read_some(connection, connection->kept + connection->n_kept, room);
        if (got <= 0)
            return false;
        connection->n_kept += (size_t)got;
    }
    fg_assert(len < size);
    memcpy(request, connection->kept, len);
    request[len] = '\0';
    connection->n_kept -= len;
    memmove(connection->kept, connection->kept + len, connection->n_kept);
    return true;
}

bool fake_respond(struct fake_connection *connection, unsigned status, const char *headers,
                  struct fg_slice body)
{
    struct fg_buf head;
    bool ok;

    fg_buf_init(&head, SIZE_MAX);
    fg_buf_printf(&head, "HTTP/1.1 %u Whatever\r\nContent-Length: %zu\r\n%s\r\n", status, body.len,
                  headers);
    ok = fake_write(connection, fg_buf_slice(&head)) && fake_write(connection, body);
    fg_buf_done(&head);
    return ok;
}

bool fake_write_chunk(struct fake_connection *connection, struct fg_slice piece)
{
    struct fg_buf chunk;
    bool ok;

    fg_buf_init(&chunk, SIZE_MAX);
    fg_buf_printf(&chunk, "%zx\r\n", piece.len);
    fg_buf_put(&chunk, piece);
    fg_buf_puts(&chunk, "\r\n");
    ok = fake_write(connection, fg_buf_slice(&chunk));
    fg_buf_done(&chunk);
    return ok;
}

void fake_wait_gone(struct fake_connection *connection)
{
    char byte;

    while (read_some(connection, &byte, 1) > 0)
        continue;
}

/* ---- threads ---- */

static void *serve(void *arg)
{
    struct fake_connection *connection = arg;
    struct fake_server *server = connection->server;

    if (server->tls != NULL) {
        connection->ssl = SSL_new(server->tls);
        fg_assert(SSL_set_fd(connection->ssl, connection->fd) == 1);
    }
    if (connection->ssl == NULL || SSL_accept(connection->ssl) == 1)
        server->handler(connection, server->arg);
    (void)shutdown(connection->fd, SHUT_RDWR); /* closed when the server stops */
    return NULL;
}

static void *accept_all(void *arg)
{
    struct fake_server *server = arg;
    int fd;

    while ((fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct fake_connection *connection = fg_new(struct fake_connection);

        connection->server = server;
        connection->fd = fd;
        (void)pthread_mutex_lock(&server->lock);
        fg_assert(server->n < CONNECTIONS_MAX);
        server->connections[server->n++] = connection;
        if (server->stopping)
            (void)shutdown(fd, SHUT_RDWR);
        fg_assert(pthread_create(&connection->thread, NULL, serve, connection) == 0);
        (void)pthread_mutex_unlock(&server->lock);
    }
    return NULL;
}

struct fake_server *fake_server_start(const struct fake_identity *identity, bool want_client,
                                      fake_handler handler, void *arg)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct fake_server *server = fg_new(struct fake_server);
    socklen_t len = sizeof addr;

    (void)pthread_mutex_init(&server->lock, NULL);
    server->handler = handler;
    server->arg = arg;
    if (identity != NULL)
        server->tls = make_tls(identity, want_client);
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fg_assert(server->fd >= 0 && bind(server->fd, (struct sockaddr *)&addr, len) == 0 &&
              listen(server->fd, 64) == 0 &&
              getsockname(server->fd, (struct sockaddr *)&addr, &len) == 0);
    server->port = ntohs(addr.sin_port);
    fg_assert(pthread_create(&server->thread, NULL, accept_all, server) == 0);
    return server;
}

unsigned fake_server_port(const struct fake_server *server)
{
    return server->port;
}

void fake_server_stop(struct fake_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->stopping = true;
    for (size_t i = 0; i < server->n; i++)
        (void)shutdown(server->connections[i]->fd, SHUT_RDWR);
    (void)pthread_mutex_unlock(&server->lock);
    (void)shutdown(server->fd, SHUT_RDWR);
    fg_assert(pthread_join(server->thread, NULL) == 0);
    for (size_t i = 0; i < server->n; i++) {
        struct fake_connection *connection = server->connections[i];

        fg_assert(pthread_join(connection->thread, NULL) == 0);
        SSL_free(connection->ssl);
        (void)close(connection->fd);
        free(connection);
    }
    (void)close(server->fd);
    SSL_CTX_free(server->tls);
    (void)pthread_mutex_destroy(&server->lock);
    free(server);
}
