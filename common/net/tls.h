/*
 * TLS for a server, with OpenSSL, as a filter on bytes: received bytes go in and plaintext comes
 * out; plaintext goes in and bytes to send come out. It uses no sockets and never waits, so the
 * owner of the socket keeps back-pressure: it decrypts on request only, and encrypts no more than
 * can be sent soon.
 *
 * TLS 1.2 and 1.3; in 1.2 only ciphers with forward secrecy and authenticated encryption (ECDHE
 * with AES-GCM or ChaCha20-Poly1305), as HTTP/2 requires (RFC 9113, 9.2.2). No renegotiation, no
 * compression, no early data. Session tickets are valid as long as the certificate they were issued
 * under.
 *
 * A context has a certificate, its key and optionally the CA certificates for clients. A thread
 * checks the files every few seconds and takes over a new set that is complete. An invalid set is
 * logged and counted, and the old one stays. Open connections keep their certificate.
 */
#ifndef FG_COMMON_NET_TLS_H
#define FG_COMMON_NET_TLS_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/runtime/metrics.h"

/* --- certificates --- */

/*
 * Says whether clients are asked for a certificate. A certificate that is sent must be valid.
 * REQUIRE also completes the handshake of clients without one: the owner of the connection decides
 * what they may request (fg_tls_needs_certificate()), so that probes need no certificate.
 */
enum fg_tls_client_auth { FG_TLS_CLIENT_NONE, FG_TLS_CLIENT_OPTIONAL, FG_TLS_CLIENT_REQUIRE };

/* Names of PEM files; "" or NULL: none. */
struct fg_tls_config {
    const char *cert_file; /* the certificate, then the intermediate ones up to its CA */
    const char *key_file;  /* not encrypted */
    const char *client_ca_file;
    enum fg_tls_client_auth client_auth;
    int64_t check_ns; /* between two checks of the files; 0: only fg_tls_context_reload() checks */
};

struct fg_tls_context;

/*
 * Creates a context from the files. config is copied; registry is borrowed, NULL: no metrics.
 * FG_E_INVALID: a file cannot be read or does not match, with its name and the reason. May block.
 */
enum fg_code fg_tls_context_create(const struct fg_tls_config *config, struct fg_registry *registry,
                                   struct fg_tls_context **ret_context,
                                   struct fg_err *err) fg_must_check;

/* Frees it, after the last fg_tls_create() and not from a loop; sessions may live on. NULL is fine.
 */
void fg_tls_context_destroy(struct fg_tls_context *context);

/*
 * Checks the files now. Returns true if they had changed and are used for new sessions. May block:
 * any thread except a loop's.
 */
bool fg_tls_context_reload(struct fg_tls_context *context);

/* --- one connection; one thread --- */

struct fg_tls;

/* Creates the server side of a connection. Never fails. */
struct fg_tls *fg_tls_create(struct fg_tls_context *context);
void fg_tls_destroy(struct fg_tls *tls); /* NULL is fine */

/*
 * Gives it bytes from the peer, borrowed until they are used up or until fg_tls_keep(). The bytes
 * before are used up: fg_tls_read() returned FG_TLS_WANT_INPUT.
 */
void fg_tls_feed(struct fg_tls *tls, struct fg_slice bytes);

/* Copies the bytes that are not used yet, because their owner reuses the memory. */
void fg_tls_keep(struct fg_tls *tls);

enum fg_tls_status {
    FG_TLS_OK,         /* plaintext */
    FG_TLS_READY,      /* the handshake is complete; returned once */
    FG_TLS_WANT_INPUT, /* nothing now */
    FG_TLS_END,        /* the peer sends no more (close_notify) */
    FG_TLS_CLEARTEXT,  /* this is no TLS but HTTP; nothing was sent yet */
    FG_TLS_FAILED,     /* close the connection after sending the output, which has an alert */
};

/* Reads up to size bytes of plaintext, after the handshake. Every call may produce output. */
enum fg_tls_status fg_tls_read(struct fg_tls *tls, void *out, size_t size, size_t *ret_len);

/* After FG_TLS_READY: returns true for HTTP/2 (ALPN), false for HTTP/1.1. */
bool fg_tls_is_http2(const struct fg_tls *tls);

/* After FG_TLS_READY: return whether this client has shown a certificate, which is valid then, and
 * whether clients need one. */
bool fg_tls_has_certificate(const struct fg_tls *tls);
bool fg_tls_needs_certificate(const struct fg_tls *tls);

/*
 * Encrypts at most 16 KiB of plaintext (one record), after FG_TLS_READY. Returns false if nothing
 * more can be sent on this connection.
 */
bool fg_tls_write(struct fg_tls *tls, struct fg_slice plain) fg_must_check;

/* Adds close_notify to the output, if that is still possible. */
void fg_tls_shutdown(struct fg_tls *tls);

/* Moves the bytes to send into buf, which must be empty. */
void fg_tls_take_output(struct fg_tls *tls, struct fg_buf *buf);
size_t fg_tls_output_len(const struct fg_tls *tls);

/* Counts a handshake that was not completed: in time, or because the peer left. */
void fg_tls_gave_up(struct fg_tls *tls, bool timeout);

#endif
