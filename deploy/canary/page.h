/* GET /metrics of a command that runs for long. */
#ifndef FG_DEPLOY_CANARY_PAGE_H
#define FG_DEPLOY_CANARY_PAGE_H

#include "common/base/err.h"
#include "common/runtime/metrics.h"

struct page;

/* listen: HOST:PORT. registry is borrowed. Close accepts NULL. */
enum fg_code page_open(const char *listen, struct fg_registry *registry, struct page **ret_page,
                       struct fg_err *err) fg_must_check;
void page_close(struct page *page);

#endif
