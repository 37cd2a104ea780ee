#include "deploy/cli/retry.h"

enum {
    PAUSE_MAX_S = 60, /* at most, even if the server asks for more: a user is waiting */
    DOUBLINGS_MAX = 6,
};

bool cli_retry_helps(unsigned status)
{
    /* 501: it does not know the method, and will not learn it. */
    return status == 408 || status == 429 || (status >= 500 && status != 501);
}

unsigned cli_retry_pause_s(uint64_t retry_after_s, unsigned attempt)
{
    uint64_t wait_s =
        retry_after_s > 0 ? retry_after_s : UINT64_C(1) << FG_MIN(attempt, DOUBLINGS_MAX);

    return (unsigned)FG_MIN(wait_s, PAUSE_MAX_S);
}
