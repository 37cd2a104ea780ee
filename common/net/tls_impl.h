/* What tls.c (sessions) and tls_context.c (certificates) share. */
#ifndef FG_COMMON_NET_TLS_IMPL_H
#define FG_COMMON_NET_TLS_IMPL_H

#include "common/net/tls.h"

#include <openssl/ssl.h>

/* clang-format off */
#define TLS_METRICS(M)                                                                                   \
    M(COUNTER, TLS_HANDSHAKES_12, "flamegrid_tls_handshakes_total{version=\"1.2\"}", "Completed TLS handshakes by version") \
    M(COUNTER, TLS_HANDSHAKES_13, "flamegrid_tls_handshakes_total{version=\"1.3\"}", "Completed TLS handshakes by version") \
    M(COUNTER, TLS_FAILED_CLEARTEXT, TLS_FAILED("cleartext"), TLS_FAILED_HELP)                           \
    M(COUNTER, TLS_FAILED_TIMEOUT, TLS_FAILED("timeout"), TLS_FAILED_HELP)                               \
    M(COUNTER, TLS_FAILED_CLOSED, TLS_FAILED("closed"), TLS_FAILED_HELP)                                 \
    M(COUNTER, TLS_FAILED_CERTIFICATE, TLS_FAILED("client_certificate"), TLS_FAILED_HELP)                \
    M(COUNTER, TLS_FAILED_OTHER, TLS_FAILED("protocol"), TLS_FAILED_HELP)                                \
    M(COUNTER, TLS_RELOADS, "flamegrid_tls_reloads_total", "Successful reloads of changed certificate files") \
    M(COUNTER, TLS_RELOADS_FAILED, "flamegrid_tls_reload_failures_total", "Failed reloads of changed certificate files") \
    M(GAUGE, TLS_RELOAD_FAILED, "flamegrid_reload_failed{file=\"tls\"}", "1 while the last version of a changed file is invalid and the one before it is in use") \
    M(GAUGE, TLS_EXPIRY, "flamegrid_tls_certificate_expiry_timestamp_seconds", "Expiry of the certificate in use, in seconds since the epoch")
/* clang-format on */
#define TLS_FAILED(reason) "flamegrid_tls_handshake_failures_total{reason=\"" reason "\"}"
#define TLS_FAILED_HELP    "TLS connections that ended before the handshake was complete, by reason"
FG_METRICS_ENUM(tls_metric, TLS_METRICS)

/* The current set of the context's; the caller frees its reference. */
SSL_CTX *fg_tls_context_current(struct fg_tls_context *context);

bool fg_tls_context_requires_client(const struct fg_tls_context *context);

/* NULL: nothing is counted. Outlives the sessions. */
struct fg_metrics *fg_tls_context_metrics(const struct fg_tls_context *context);

#endif
