#include "querier/querier.h"

#define CONF(field) FG_CONF_AT(struct fg_querier_settings, field)

const struct fg_conf_field fg_querier_fields[] = {
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "60s", .min = "100ms", .max = "1h",
     .doc = "How long a query may take that brings no earlier deadline."},
    {"answer_max_bytes", FG_CONF_BYTES, CONF(answer_max_bytes), .def = "256MiB", .min = "1MiB",
     .doc =
         "Largest answer; beyond it the query fails with 429. Also the most memory for a query's "
         "sums and stacks."},
    {"cache_max_bytes", FG_CONF_BYTES, CONF(cache_max_bytes), .def = "256MiB", .min = "0",
     .doc = "Memory for what was read of segments and blocks and may be asked for again."},
    {"fetch_max_bytes", FG_CONF_BYTES, CONF(fetch_max_bytes), .def = "32MiB", .min = "1MiB",
     .doc = "Bytes of segments and blocks that are under way for one query at a time."},
    {"refine_max_bytes", FG_CONF_BYTES, CONF(refine_max_bytes), .def = "256MiB", .min = "0",
     .doc = "Flame graphs are made from the heaviest stacks of each part first. Where that cannot "
            "give the exact picture, all samples are read if they are no more bytes than this; "
            "else the answer says how far it may be off (X-Flamegrid-Bound)."},
    {"manifest_age", FG_CONF_NS, CONF(manifest_age_ns), .def = "10s", .min = "0s", .max = "1m",
     .doc = "The lists of segments and blocks are asked for again when they are older. Answers are "
            "the same with any value, but for deletions, which act that much later where the "
            "compactor is another process; a larger one costs fewer requests."},
};
const size_t fg_querier_n_fields = FG_COUNT(fg_querier_fields);
