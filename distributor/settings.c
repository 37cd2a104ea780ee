#include "distributor/settings.h"

#define CONF(field) FG_CONF_AT(struct dist_settings, field)

/* clang-format off */
const struct fg_conf_field dist_fields[] = {
    {"body_max_bytes", FG_CONF_BYTES, CONF(body_max_bytes), .def = "32MiB", .min = "64KiB", .max = "1GiB",
     .doc = "Size of an upload as received. Larger uploads are refused with 413."},
    {"upload_max_bytes", FG_CONF_BYTES, CONF(upload_max_bytes), .def = "128MiB", .min = "64KiB", .max = "16GiB",
     .doc = "Total size of the profiles of one push after decompression. Larger pushes are refused."},
    {"decode_max_bytes", FG_CONF_BYTES, CONF(decode_max_bytes), .def = "64MiB", .min = "1MiB", .max = "4GiB",
     .doc = "Memory for decompressing and decoding one upload, in addition to the upload itself."},
    {"definition_cache_max", FG_CONF_UINT, CONF(definition_cache_max), .def = "4000000", .min = "1000",
     .doc = "Entries in the cache of stacks that the ingesters already have (about 16 bytes each)."},
    {"forward_stacks_max", FG_CONF_UINT, CONF(forward_stacks_max), .def = "1000000", .min = "1000", .max = "1000000000",
     .doc = "Stacks whose ids are remembered, 16 bytes each, so that servers that forward need not send whole ids again."},
    {"push_queue_max_bytes", FG_CONF_BYTES, CONF(push_queue_max_bytes), .def = "32MiB", .min = "1MiB", .max = "16GiB",
     .doc = "Decoded profiles that may wait for one ingester. Further uploads that need this ingester are refused with 429."},
    {"push_messages_max", FG_CONF_UINT, CONF(push_messages_max), .def = "4", .min = "1", .max = "256",
     .doc = "Concurrent messages to one ingester, and half as many more of what other servers forward. Profiles that arrive in the meantime are sent together in the next message."},
    {"push_timeout", FG_CONF_NS, CONF(push_timeout_ns), .def = "8s", .min = "100ms", .max = "5m",
     .doc = "Timeout for ingesters to make a profile durable, retries included. Agents give up after 10 s."},
    {"push_retry", FG_CONF_NS, CONF(push_retry_ns), .def = "3s", .min = "0", .max = "5m",
     .doc = "How long a push is retried while too few of the ingesters of a profile are reachable. After that the upload is refused with 503."},
    {"stragglers_max_bytes", FG_CONF_BYTES, CONF(stragglers_max_bytes), .def = "64MiB", .min = "0", .max = "16GiB",
     .doc = "Memory for copies that still wait for slow ingesters after enough others have acknowledged the profile. Further copies are dropped; the slow ingesters fetch the profile from the others."},
};
/* clang-format on */
const size_t dist_n_fields = FG_COUNT(dist_fields);
