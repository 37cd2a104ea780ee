/*
 * TLS of nng's transport "tls+tcp" by OpenSSL, the library that HTTPS uses and that the system
 * keeps up to date. nng asks an "engine" for TLS (nng/supplemental/tls/engine.h); this is one.
 *
 * Both sides must show a certificate, whatever else nng is told. A dialer wants the server name of
 * its configuration in the other side's: an address as an address, anything else as a name.
 * Authorities may be intermediate ones: each certificate among them is trusted for what it signed.
 *
 * A configuration that has been given a key (nng_tls_config_psk, fg_secret_key) has TLS 1.3 with
 * that key and no certificates: both sides prove that they know it. A dialer has one key, a
 * listener takes any of its keys.
 *
 * A configuration that nng refuses (nng_tls_config_own_cert, nng_tls_config_ca_chain: NNG_ECRYPTO)
 * leaves OpenSSL's reason for fg_pem_why() of the same thread. Failed handshakes go to nng's log,
 * with an id that begins with "NNG-TLS".
 *
 * NNG_OPT_TLS_PEER_ALT_NAMES of a connection are the DNS names of the other side's certificate,
 * each and the list to be freed with free().
 *
 * What nothing here asks for is NNG_ENOTSUP or not there: other modes of authentication, lists of
 * revoked certificates, keys with a password, a choice of versions, the other side's common name.
 */
#ifndef FG_COMMON_RPC_TLS_ENGINE_H
#define FG_COMMON_RPC_TLS_ENGINE_H

#include "common/base/err.h"

/*
 * Registers the engine, once for the process. Thread: any; before the first address with "tls+tcp".
 * FG_E_UNIMPLEMENTED: nng was built without TLS, or for engines of another version.
 */
enum fg_code fg_tls_engine_register(struct fg_err *err) fg_must_check;

#endif
