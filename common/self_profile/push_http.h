/*
 * A sink of self-profiling that sends to another process: POST /push.v1.PusherService/Push.
 *
 * Thread: create and destroy from the program's main thread.
 */
#ifndef FG_COMMON_SELF_PROFILE_PUSH_HTTP_H
#define FG_COMMON_SELF_PROFILE_PUSH_HTTP_H

#include "common/self_profile/self_profile.h"

struct fg_push_http;

/* Creates it; it sends on the loop, which runs. settings: url is not empty; borrowed. */
struct fg_push_http *fg_push_http_create(const struct fg_self_profile_settings *settings,
                                         struct fg_loop *loop);

/* Returns it as a sink. */
struct fg_self_profile_sink fg_push_http_sink(struct fg_push_http *http);

/* Closes the connection, when no push is under way and the loop still runs. NULL is fine. */
void fg_push_http_close(struct fg_push_http *http);
/* Frees it, after the loop was stopped. NULL is fine. */
void fg_push_http_destroy(struct fg_push_http *http);

#endif
