/*
 * TLS for a server, on OpenSSL, as a machine between two sides of bytes: what came from the peer
 * goes in, plaintext comes out; plaintext goes in, what is to be sent comes out. It knows no
 * sockets and never waits, so that whoever owns the socket keeps its back-pressure: nothing is
 * decrypted that nobody has asked for, and no more encrypted than can be sent soon.
 *
 * TLS 1.2 and 1.3; in 1.2 only ciphers with forward secrecy and authentication (ECDHE, AES-GCM or
 * ChaCha20-Poly1305), as HTTP/2 wants it too (RFC 9113, 9.2.2). No renegotiation, no compression,
 * no early data; session tickets are on, and die with the certificate they were given under.
 *
 * A context is a certificate with its key and, perhaps, the authorities of client certificates. A
 * thread of its own looks every few seconds whether the files have changed and takes over a new
 * set that is whole; a broken one is logged and counted, and the old one stays. Connections keep
 * what they began with.
 */
#ifndef FG_COMMON_NET_TLS_H
#define FG_COMMON_NET_TLS_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/runtime/metrics.h"

/* --- certificates --- */

/*
 * Are clients asked for a certificate? One that is shown always has to be valid. REQUIRE lets the
 * handshake of a client without one complete, too: whoever owns the connection decides what it may
 * ask (fg_tls_is_certified()), so that probes need none.
 */
enum fg_tls_client_auth { FG_TLS_CLIENT_NONE, FG_TLS_CLIENT_OPTIONAL, FG_TLS_CLIENT_REQUIRE };

/* Names of PEM files; "" or NULL: none. */
struct fg_tls_config {
    const char *cert_file; /* the certificate first, then those that lead to its authority */
    const char *key_file;  /* not encrypted */
    const char *client_ca_file;
    enum fg_tls_client_auth client_auth;
    int64_t check_ns; /* between two looks at the files; 0: only fg_tls_context_reload() looks */
};

struct fg_tls_context;

/*
 * Reads the files. config is copied, registry (NULL: nothing is counted) borrowed. FG_E_INVALID:
 * a file that cannot be read or does not fit, with its name and the reason. May block.
 */
enum fg_code fg_tls_context_create(const struct fg_tls_config *config, struct fg_registry *registry,
                                   struct fg_tls_context **ret_context,
                                   struct fg_err *err) fg_must_check;

/* Not from a loop, after the last fg_tls_create(); sessions may live on. NULL is fine. */
void fg_tls_context_destroy(struct fg_tls_context *context);

/*
 * Looks at the files now. true: they had changed and hold for new sessions. May block: any thread
 * but a loop's.
 */
bool fg_tls_context_reload(struct fg_tls_context *context);

/* --- one connection; one thread --- */

struct fg_tls;

struct fg_tls *fg_tls_create(struct fg_tls_context *context);
void fg_tls_destroy(struct fg_tls *tls); /* NULL is fine */

/*
 * Bytes from the peer: borrowed, until fg_tls_keep(). What came before has been used up, or
 * fg_tls_read() would not have been asked to stop.
 */
void fg_tls_feed(struct fg_tls *tls, struct fg_slice bytes);

/* What of them is not used yet is copied: their owner wants the memory back. */
void fg_tls_keep(struct fg_tls *tls);

enum fg_tls_status {
    FG_TLS_OK,         /* plaintext */
    FG_TLS_READY,      /* the handshake is complete; said once */
    FG_TLS_WANT_INPUT, /* nothing now */
    FG_TLS_END,        /* the peer sends no more (close_notify) */
    FG_TLS_CLEARTEXT,  /* this is no TLS but HTTP; nothing was sent yet */
    FG_TLS_FAILED,     /* an alert is in the output; the connection is of no more use */
};

/* Up to size bytes of plaintext; goes on with the handshake first. Any call may make output. */
enum fg_tls_status fg_tls_read(struct fg_tls *tls, void *out, size_t size, size_t *ret_len);

/* After FG_TLS_READY: was HTTP/2 agreed on (ALPN)? Else it is HTTP/1.1. */
bool fg_tls_is_http2(const struct fg_tls *tls);

/* After FG_TLS_READY: false if clients have to show a certificate and this one has not. */
bool fg_tls_is_certified(const struct fg_tls *tls);

/*
 * Encrypts a piece of plaintext of at most 16 KiB (one record); only after FG_TLS_READY. false: no
 * more can be encrypted on this connection.
 */
bool fg_tls_write(struct fg_tls *tls, struct fg_slice plain) fg_must_check;

/* Says that no more will be sent (close_notify), if that can still be said. */
void fg_tls_shutdown(struct fg_tls *tls);

/* Bytes to be sent; buf, which must be empty, is exchanged for what they are in. */
void fg_tls_take_output(struct fg_tls *tls, struct fg_buf *buf);
size_t fg_tls_output_len(const struct fg_tls *tls);

/* The handshake was not finished in time, or the peer left; counted, nothing else. */
void fg_tls_gave_up(struct fg_tls *tls, bool timeout);

#endif
