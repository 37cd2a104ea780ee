/* Settings of the distributor, section "distributor". */
#ifndef FG_DISTRIBUTOR_SETTINGS_H
#define FG_DISTRIBUTOR_SETTINGS_H

#include "common/runtime/config.h"

struct dist_settings {
    uint64_t body_max_bytes;       /* of a request, as received */
    uint64_t upload_max_bytes;     /* of all profiles of an upload after decompression */
    uint64_t decode_max_bytes;     /* memory of one decoder */
    uint64_t definition_cache_max; /* entries of the definition cache */
    uint64_t forward_stacks_max;   /* ids that stack_names remembers */
    uint64_t push_queue_max_bytes, push_messages_max;
    int64_t push_timeout_ns; /* until a quorum has answered, all rounds together */
    int64_t push_retry_ns;   /* how long to retry while too few ingesters can be reached */
    uint64_t stragglers_max_bytes;
};
extern const struct fg_conf_field dist_fields[];
extern const size_t dist_n_fields;

#endif
