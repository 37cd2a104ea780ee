#include "common/net/rpc/settings.h"

#define CONF(field) FG_CONF_AT(struct fg_rpc_settings, field)

/* clang-format off */
const struct fg_conf_field fg_rpc_fields[] = {
    {"cluster", FG_CONF_STRING, CONF(cluster), .def = "", .max = "200",
     .doc = "Name of the cluster, the same in all of its processes. Calls from processes with another name are refused, which protects against reused addresses."},
    {"tls_cert_file", FG_CONF_STRING, CONF(tls_cert_file), .def = "", .max = "4000",
     .doc = "Certificate chain in PEM format for calls between services. Clients and servers present it: if the certificate restricts its usage, it must allow both. With it, `tls_key_file` and `tls_ca_file`, addresses are tls+tcp://HOST:PORT. Changed files are loaded within seconds, for new connections."},
    {"tls_key_file", FG_CONF_STRING, CONF(tls_key_file), .def = "", .max = "4000",
     .doc = "Private key of `rpc.tls_cert_file` in PEM format, not encrypted."},
    {"tls_ca_file", FG_CONF_STRING, CONF(tls_ca_file), .def = "", .max = "4000",
     .doc = "CA certificates in PEM format that verify the certificate of the other side."},
    {"tls_server_name", FG_CONF_STRING, CONF(tls_server_name), .def = "", .max = "250",
     .doc = "Name that the certificate of a server must contain. Empty: the host of its address."},
    {"tls_role_domain", FG_CONF_STRING, CONF(tls_role_domain), .def = "flamegrid", .max = "200",
     .doc = "Domain of service names in certificates. The certificate of the other side must contain the DNS name distributor.DOMAIN, ingester.DOMAIN, querier.DOMAIN or compactor.DOMAIN, and it may only make the calls of that service. Empty: any certificate that the CA signed may make all calls."},
    {"secret_file", FG_CONF_STRING, CONF(secret_file), .def = "", .max = "4000",
     .doc = "File with a secret that all services of the cluster share, instead of certificates: at least 32 characters, for example from openssl rand -hex 32. With it, addresses are tls+tcp://HOST:PORT. The secret is never sent: both sides prove that they know it (TLS 1.3). The file may hold up to 4 secrets, one per line: calls use the first, and any of them is accepted. Changes are loaded within seconds, for new connections."},
    {"insecure", FG_CONF_BOOL, CONF(insecure), .def = "false",
     .doc = "Accepts cleartext calls from anybody at an address that is not loopback. If neither a secret nor certificates are set, the service refuses to start at such an address without this setting."},
    {"threads", FG_CONF_UINT, CONF(threads), .def = "2", .min = "2", .max = "64",
     .doc = "Threads of the transport for calls between services."},
    {"answers_max_bytes", FG_CONF_BYTES, CONF(answers_max_bytes), .def = "256MiB", .min = "1MiB",
     .doc = "Total memory for large responses whose chunks wait to be fetched. Further calls are refused with resource_exhausted."},
    {"requests_max_bytes", FG_CONF_BYTES, CONF(requests_max_bytes), .def = "0", .min = "0", .max = "1TiB",
     .doc = "Memory for requests from other services. Half of it is for chunked requests (above 2 MiB), half for all others. Callers above the limit are told that this service is busy, and retry. 0: an eighth of `memory_max_bytes`."},
    {"connections_max", FG_CONF_UINT, CONF(connections_max), .def = "0", .min = "0", .max = "65536",
     .doc = "Connections from other services. Each may buffer 2 MiB. Further connections are closed. 0: as many as buffer an eighth of `memory_max_bytes`, between 32 and 4096, and at most an eighth of the open files that the process may have."},
    {"connections_per_address_max", FG_CONF_UINT, CONF(connections_per_address_max), .def = "0", .min = "0", .max = "65536",
     .doc = "Connections from one address. 0: half of `connections_max`."},
    {"ping_after", FG_CONF_NS, CONF(ping_after_ns), .def = "5s", .min = "10ms", .max = "1h",
     .doc = "Keep-alive: time without a response, while calls are in progress, after which a ping is sent to the other service."},
    {"ping_timeout", FG_CONF_NS, CONF(ping_timeout_ns), .def = "5s", .min = "10ms", .max = "1h",
     .doc = "Keep-alive: time without a response to the ping after which the connection is closed and its calls fail. The next connection resolves the name of the address again. This detects machines that vanish without closing their connections."},
};
/* clang-format on */
const size_t fg_rpc_n_fields = FG_COUNT(fg_rpc_fields);
