/*
 * One HTTP request of a caller that may wait, and asks so rarely that a connection and a loop for
 * each request do not matter.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMMON_NET_CLIENT_RUN_H
#define FG_COMMON_NET_CLIENT_RUN_H

#include "common/net/client.h"

/* Sends a request on a loop of its own, and waits for its end. As fg_client_send(), but done() is
 * not called. The caller clears the request (fg_client_clear()). Its code is FG_E_UNAVAILABLE also
 * if the process has no more file descriptors or threads. */
void fg_client_run(struct fg_client_request *request);

#endif
