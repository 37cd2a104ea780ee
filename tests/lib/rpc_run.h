/* What tests of calls between services share. */
#ifndef FG_TESTS_LIB_RPC_RUN_H
#define FG_TESTS_LIB_RPC_RUN_H

#include "common/net/rpc/rpc.h"

enum { RPC_RUN_URL_BYTES = 64 };

/* "tcp://127.0.0.1:port" with a port that is free now. */
void rpc_run_url(const char *scheme, char url[RPC_RUN_URL_BYTES]);

/* Of the method, with a head and a payload, to be answered within so long. */
struct fg_call rpc_run_call(enum fg_rpc_method method, int64_t for_ns);

/* A handler: answers with what was asked. arg: NULL, or an unsigned that counts. */
void rpc_run_echo(struct fg_rpc_request *req, void *arg);

/* Connections that say nothing, and how many of them a server has at a time: 256 (deploy/deps), and
 * a few files that others open meanwhile. */
enum { RPC_RUN_SILENT = 1000, RPC_RUN_SILENT_MAX = 256 + 40 };
void rpc_run_connect_silently(const char *url, int fds[RPC_RUN_SILENT]);

/* Returns how many files this process has open. */
unsigned rpc_run_open_files(void);
/* Waits until it has no more than that, for 7 s at most: after 10 s nng gives silent connections up
 * by itself. Returns how many it has. */
unsigned rpc_run_await_files(unsigned most);

/* The peer answers a ping before long. */
void rpc_run_connected(struct fg_peer *peer);

#endif
