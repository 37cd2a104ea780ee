/*
 * Implements nng's transport "tls+tcp" with OpenSSL, the library that HTTPS uses and that the
 * system keeps up to date. nng gets TLS from an "engine" (nng/supplemental/tls/engine.h); this is
 * one.
 *
 * Both sides must show a certificate, whichever authentication mode nng is configured with. The
 * certificate of a listener must have the server name of the dialer's configuration: as an IP
 * address if it is one, else as a DNS name. Authorities may be intermediate ones: each certificate
 * in the authority file is trusted for what it signed.
 *
 * A configuration with a pre-shared key (nng_tls_config_psk, fg_secret_key) uses TLS 1.3 with that
 * key and without certificates. A dialer has one key; a listener accepts any of its keys.
 *
 * If nng_tls_config_own_cert() or nng_tls_config_ca_chain() fails with NNG_ECRYPTO, fg_pem_why()
 * returns OpenSSL's reason on the same thread. Failed handshakes go to nng's log, with an id that
 * begins with "NNG-TLS".
 *
 * NNG_OPT_TLS_PEER_ALT_NAMES of a connection returns the DNS names of the other side's certificate.
 * The caller frees each name and the list with free().
 *
 * Not supported, because nothing here uses it (NNG_ENOTSUP): other authentication modes, revocation
 * lists, keys with a password, a choice of TLS versions, the other side's common name.
 */
#ifndef FG_COMMON_NET_RPC_TLS_ENGINE_H
#define FG_COMMON_NET_RPC_TLS_ENGINE_H

#include "common/base/err.h"

/*
 * Registers the engine, once per process, before the first "tls+tcp" address is used. Any thread.
 * FG_E_UNIMPLEMENTED: nng was built without TLS, or expects another version of the engine API.
 */
enum fg_code fg_tls_engine_register(struct fg_err *err) fg_must_check;

#endif
