/*
 * The metrics of a target of forwarding; %s is its name (ing_sender_register_metrics()).
 */
#ifndef FG_INGESTER_FORWARD_SENDER_METRICS_H
#define FG_INGESTER_FORWARD_SENDER_METRICS_H

#include "common/runtime/metrics.h"

/* clang-format off */
#define FORWARD_METRICS(M)                                                                         \
    M(GAUGE, FORWARD_PENDING, "flamegrid_forward_pending_profiles{target=\"%s\"}", "Profiles that wait for a target of forwarding, with those that are being sent") \
    M(GAUGE, FORWARD_PENDING_BYTES, "flamegrid_forward_pending_bytes{target=\"%s\"}", "Size on disk of profiles that wait for a target of forwarding") \
    M(GAUGE, FORWARD_QUEUE_MAX, "flamegrid_forward_queue_max_bytes{target=\"%s\"}", "The target's queue_max_bytes") \
    M(FRACTION, FORWARD_OLDEST, "flamegrid_forward_oldest_pending_seconds{target=\"%s\"}", "Time since the oldest pending profile was received; 0: none is pending") \
    M(GAUGE, FORWARD_DEAD, "flamegrid_forward_dead_profiles{target=\"%s\"}", "Profiles that a target refused for good, kept for 24 hours") \
    M(GAUGE, FORWARD_PAUSED, "flamegrid_forward_paused{target=\"%s\"}", "1 if an operator has paused the target, or the target refuses our credentials") \
    M(GAUGE, FORWARD_RESEND_HELD, "flamegrid_forward_resend_held_tenants{target=\"%s\"}", "Tenants that a resend has passed and will come back to, since the target refuses them (403) or they are beyond a limit of their own (429)") \
    M(GAUGE, FORWARD_HELD, "flamegrid_forward_held_tenants{target=\"%s\"}", "Tenants whose profiles wait since the target refuses them (403) or they are beyond a limit of their own (429)") \
    M(GAUGE, FORWARD_CONNECTIONS, "flamegrid_forward_connections{target=\"%s\"}", "Requests to the target in progress") \
    M(COUNTER, FORWARD_FRESH, "flamegrid_forward_sent_profiles_total{target=\"%s\",lane=\"fresh\"}", "Profiles that a target has acknowledged, by lane: received in the last five minutes, backlog, or resent") \
    M(COUNTER, FORWARD_BACKLOG, "flamegrid_forward_sent_profiles_total{target=\"%s\",lane=\"backlog\"}", "Profiles that a target has acknowledged, by lane: received in the last five minutes, backlog, or resent") \
    M(COUNTER, FORWARD_RESENT, "flamegrid_forward_sent_profiles_total{target=\"%s\",lane=\"resend\"}", "Profiles that a target has acknowledged, by lane: received in the last five minutes, backlog, or resent") \
    M(GAUGE, FORWARD_RESENDING, "flamegrid_forward_resending{target=\"%s\"}", "1 while profiles of the past are resent to a target") \
    M(GAUGE, FORWARD_RESEND_TIME, "flamegrid_forward_resend_timestamp_seconds{target=\"%s\"}", "Time of the profiles that a resend is at; 0: none is under way") \
    M(COUNTER, FORWARD_RESEND_LOST, "flamegrid_forward_resend_lost_profiles_total{target=\"%s\"}", "Profiles that could not be resent, since only rollups are left of them") \
    M(COUNTER, FORWARD_RESEND_FAILED, "flamegrid_forward_resend_read_failures_total{target=\"%s\"}", "Reads of the bucket that failed for a resend, and are repeated") \
    M(COUNTER, FORWARD_BYTES, "flamegrid_forward_sent_bytes_total{target=\"%s\"}", "Bytes sent to a target, repeated requests included") \
    M(COUNTER, FORWARD_KNOWN, "flamegrid_forward_known_total{target=\"%s\"}", "Profiles that the target already had: from another server, from this one by a request whose answer did not come or was an error for a part, or before a resend") \
    M(COUNTER, FORWARD_FILTERED, "flamegrid_forward_filtered_total{target=\"%s\"}", "Profiles that the target's selector or rules leave out") \
    M(COUNTER, FORWARD_RETRIED_BUSY, "flamegrid_forward_retries_total{target=\"%s\",reason=\"busy\"}", "Requests whose profiles are sent again, by reason") \
    M(COUNTER, FORWARD_RETRIED_AWAY, "flamegrid_forward_retries_total{target=\"%s\",reason=\"unavailable\"}", "Requests whose profiles are sent again, by reason") \
    M(COUNTER, FORWARD_RETRIED_DENIED, "flamegrid_forward_retries_total{target=\"%s\",reason=\"denied\"}", "Requests whose profiles are sent again, by reason") \
    M(COUNTER, FORWARD_RETRIED_UNREAD, "flamegrid_forward_retries_total{target=\"%s\",reason=\"unread\"}", "Requests whose profiles are sent again, by reason") \
    M(GAUGE, FORWARD_UNREAD, "flamegrid_forward_unread{target=\"%s\"}", "1 if this server cannot read what it has to send, or its own files of credentials, or has no memory for answers: the target is not to blame") \
    M(COUNTER, FORWARD_TOKENS, "flamegrid_forward_token_requests_total{target=\"%s\",result=\"ok\"}", "Requests for tokens of OAuth 2, by result") \
    M(COUNTER, FORWARD_TOKENS_FAILED, "flamegrid_forward_token_requests_total{target=\"%s\",result=\"failed\"}", "Requests for tokens of OAuth 2, by result") \
    M(COUNTER, FORWARD_DROPPED_FULL, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"full\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_REFUSED, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"refused\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_EXPIRED, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"expired\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_GONE, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"gone\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_OPERATOR, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"operator\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_DELETED, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"deleted\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_REFUSED_PUSHES, "flamegrid_forward_refused_pushes_total{target=\"%s\"}", "Pushes of agents that got 429 because the queue of the target is full (when_full: refuse)") \
    M(HISTOGRAM, FORWARD_SECONDS, "flamegrid_forward_request_duration_seconds{target=\"%s\"}", "Duration of a request to a target")
/* clang-format on */
FG_METRICS_ENUM(forward_metric, FORWARD_METRICS)

#endif
