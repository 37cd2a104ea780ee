/* Decides whether and when a request is worth another attempt. Pure. */
#ifndef FG_DEPLOY_CLI_RETRY_H
#define FG_DEPLOY_CLI_RETRY_H

#include "common/base/def.h"

/* Returns whether the same request may succeed later: 408, 429 and faults of a server or of a proxy
 * in front of it. */
bool cli_retry_helps(unsigned status);

/* Returns the pause before another attempt; attempt 0 has failed. Without advice of the server
 * (retry_after_s 0) it doubles, from one second on; it is at most a minute. */
unsigned cli_retry_pause_s(uint64_t retry_after_s, unsigned attempt);

#endif
