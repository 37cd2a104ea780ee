/*
 * TLS between services ("tls+tcp://"), in one of two ways.
 *
 * Certificates: a process has one certificate with its key for listening and dialing, and the
 * authorities that must have signed the other side's. Both sides show one. The listener's must have
 * the server name of the settings, or else the host of the address. Each must name a service,
 * "ingester.flamegrid" (rpc.tls_role_domain), which decides what calls it may make (kinds.h).
 *
 * A secret: a file that all services have (secret.h). Any process that knows it may make any call.
 *
 * tls_engine.h has OpenSSL do it, by the rules of HTTPS (common/net/tls_rules.h).
 *
 * Every few seconds a thread looks whether the files have changed and gives a new set that is whole
 * to all dialers and listeners; a broken one is logged and counted, and the old one stays.
 * Connections keep what they began with, and so does the one that a listener will accept next: nng
 * has prepared it.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_NET_RPC_SECURE_H
#define FG_COMMON_NET_RPC_SECURE_H

#include "common/net/rpc/rpc.h"

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

struct fg_rpc_secure;

/* A dialer or a listener with TLS; its owner's, from add to remove. */
struct fg_secure_end {
    struct fg_secure_end *next;
    bool listens;
    nng_dialer dialer;
    nng_listener listener;
    char *server_name; /* of a dialer */
    /* nng takes a reference to what it uses a moment after it has looked which that is: so the one
     * before stays until the next change. */
    nng_tls_config *current, *previous;
};

/* settings are borrowed and name the secret's file, or all three others. registry: NULL: nothing is
 * counted. */
enum fg_code fg_secure_create(const struct fg_rpc_settings *settings, struct fg_registry *registry,
                              struct fg_rpc_secure **ret_secure, struct fg_err *err) fg_must_check;
void fg_secure_destroy(struct fg_rpc_secure *secure); /* after its ends; NULL is fine */

/* As fg_rpc_tls_reload(). */
bool fg_secure_reload(struct fg_rpc_secure *secure);

/*
 * Does this address go with these settings? secure NULL: there are none. A link that is in the
 * clear because one forgot a few letters would be found out by somebody else.
 */
enum fg_code fg_secure_check_url(const struct fg_rpc_secure *secure, const char *url,
                                 struct fg_err *err) fg_must_check;

/* Returns true if connections must have certificates that name a service. NULL: false. */
bool fg_secure_demands_roles(const struct fg_rpc_secure *secure);

/* Returns the roles (kinds.h) that the other side's certificate names; 0: none. Only if
 * fg_secure_demands_roles(). */
unsigned fg_secure_roles(const struct fg_rpc_secure *secure, nng_pipe pipe);

/* Before the dialer or listener is started. Nothing to do for other addresses than tls+tcp. */
enum fg_code fg_secure_add_dialer(struct fg_rpc_secure *secure, struct fg_secure_end *end,
                                  nng_dialer dialer, const char *url,
                                  struct fg_err *err) fg_must_check;
enum fg_code fg_secure_add_listener(struct fg_rpc_secure *secure, struct fg_secure_end *end,
                                    nng_listener listener, const char *url,
                                    struct fg_err *err) fg_must_check;
/* After its socket was closed. Of a zeroed one as well. */
void fg_secure_remove(struct fg_rpc_secure *secure, struct fg_secure_end *end);

#endif
