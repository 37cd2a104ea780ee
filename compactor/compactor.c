#include "compactor/compactor.h"

#include "common/base/def.h"
#include "common/run/log.h"

struct compactor {
    char unused; /* C has no empty structs */
};

struct compactor *compactor_create(void)
{
    struct compactor *compactor = fg_new(struct compactor);

    fg_log_info("no bucket: heads keep everything, nothing to compact");
    return compactor;
}

void compactor_destroy(struct compactor *compactor)
{
    free(compactor);
}
