/* GET /metrics for a command that runs for a long time. */
#ifndef FG_DEPLOY_CANARY_PAGE_H
#define FG_DEPLOY_CANARY_PAGE_H

#include "common/base/err.h"
#include "common/runtime/metrics.h"

struct canary_page;

/* Serves the page at listen, HOST:PORT. registry is borrowed. Close accepts NULL. */
enum fg_code canary_page_open(const char *listen, struct fg_registry *registry,
                              struct canary_page **ret_page, struct fg_err *err) fg_must_check;
void canary_page_close(struct canary_page *page);

#endif
