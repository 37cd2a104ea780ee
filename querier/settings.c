#include "querier/querier.h"

#define CONF(field) FG_CONF_AT(struct fg_querier_settings, field)

const struct fg_conf_field fg_querier_fields[] = {
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "60s", .min = "100ms", .max = "1h",
     .doc = "How long a query may take that brings no earlier deadline."},
    {"answer_max_bytes", FG_CONF_BYTES, CONF(answer_max_bytes), .def = "256MiB", .min = "1MiB",
     .doc = "Largest answer; beyond it the query fails with 429."},
};
const size_t fg_querier_n_fields = FG_COUNT(fg_querier_fields);
