/* One upload on its way through the distributor; see the drawing in upload.c. */
#ifndef FG_DISTRIBUTOR_UPLOAD_H
#define FG_DISTRIBUTOR_UPLOAD_H

#include "distributor/decode.h"
#include "distributor/distributor.h"
#include "distributor/known.h"

#include <pthread.h>

/* Memory of a decoder, kept from upload to upload: as many as there are workers. */
struct workspace {
    struct fg_arena *arena;
    struct fg_buf inflated, wire;
    struct workspace *next;
};

/* clang-format off */
#define DISTRIBUTOR_METRICS(M)                                                                                  \
    M(COUNTER, DIST_UPLOADS, "flamegrid_distributor_uploads_total", "Uploads received")                        \
    M(COUNTER, DIST_PROFILES, "flamegrid_distributor_profiles_received_total", "Profiles acknowledged, duplicates included") \
    M(COUNTER, DIST_DUPLICATES, "flamegrid_distributor_profiles_duplicate_total", "Profiles that had arrived before") \
    M(COUNTER, DIST_BYTES, "flamegrid_distributor_received_bytes_total", "Bytes of uploads as received")       \
    M(COUNTER, DIST_INFLATED, "flamegrid_distributor_inflated_bytes_total", "Bytes of profiles after decompression") \
    M(COUNTER, DIST_REDEFINED, "flamegrid_distributor_redefined_total", "Uploads sent again with definitions the ingester lacked") \
    M(COUNTER, DIST_REFUSED_INVALID, "flamegrid_distributor_uploads_refused_total{reason=\"invalid\"}", "Uploads refused") \
    M(COUNTER, DIST_REFUSED_BUSY, "flamegrid_distributor_uploads_refused_total{reason=\"busy\"}", "Uploads refused") \
    M(COUNTER, DIST_REFUSED_OTHER, "flamegrid_distributor_uploads_refused_total{reason=\"unavailable\"}", "Uploads refused") \
    M(COUNTER, DIST_STACKS_CUT, "flamegrid_distributor_stacks_cut_total", "Stacks cut to the depth limit")     \
    M(COUNTER, DIST_SYMBOLS_CUT, "flamegrid_distributor_symbols_cut_total", "Names cut to the length limit")   \
    M(COUNTER, DIST_SAMPLES_DROPPED, "flamegrid_distributor_samples_dropped_total", "Samples without a value, negative, or of nothing") \
    M(GAUGE, DIST_KNOWN_BYTES, "flamegrid_distributor_known_stacks_bytes", "Memory of the ids of stacks that need no definition") \
    M(HISTOGRAM, DIST_DECODE_SECONDS, "flamegrid_distributor_decode_duration_seconds", "Decompressing and decoding one upload")
/* clang-format on */
FG_METRICS_ENUM(distributor_metric, DISTRIBUTOR_METRICS)

struct distributor {
    struct distributor_config config;
    struct ingest_limits limits;
    struct known *known;
    struct fg_metrics *metrics;

    pthread_mutex_t lock; /* of the list */
    struct workspace *workspaces;
};

/* Handler of /ingest; arg is the distributor. */
void upload_handle(struct fg_http_request *req, void *distributor);

#endif
