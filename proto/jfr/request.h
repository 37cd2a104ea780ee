/* What a caller gives with a JFR recording. */
#ifndef FG_PROTO_JFR_REQUEST_H
#define FG_PROTO_JFR_REQUEST_H

#include "proto/builder/builder.h"

struct fg_jfr_request {
    struct fg_upload upload; /* labels without __name__ and jfr_event */
    uint32_t sample_rate;    /* samples a second: each is for 1e9 / sample_rate ns; not 0 */
    struct fg_slice labels;  /* LabelsSnapshot (proto/jfr/labels.h); may be empty */
};

#endif
