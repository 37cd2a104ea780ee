"""When alerts fire: series, in the notation of `promtool test rules`, with which each one fires and with which it does not.

"@" in the name of a series stands for the labels of a process that the scrape configuration adds. Samples are a minute apart. `fires` fires
at the minute `at`, with the labels `labels` besides cluster and namespace, and `says` is its description. `quiet` has no alert of
that name at the same minute: it is as near to the threshold as its unit allows.
"""

import os
import re
from typing import NamedTuple

PROCESS = 'cluster="eu",namespace="profiles",instance="node-1:5040"'
INSTANCE = {"instance": "node-1:5040"}


class Case(NamedTuple):
    alert: str
    at: int
    fires: dict
    quiet: dict
    says: str
    labels: dict = {}


def requests(route, good, bad):
    """Counters of requests of a route: answered, and answered with 503."""
    name = 'pyroscope_request_duration_seconds_count{@,method="POST",route="%s",ws="false",status_code="%d"}'
    return {name % (route, 200): good, name % (route, 503): bad}


def durations(name, counts, labels=""):
    """A histogram whose buckets grow by `counts` a minute."""
    return {"%s_bucket{@%s,le=\"%s\"}" % (name, labels, le): "0+%dx600" % count for le, count in counts.items()}


def canary(lost="0x120", double="0x120", foreign="0x120"):
    return {"flamegrid_canary_profiles_%s_total{@}" % kind: values
            for kind, values in (("lost", lost), ("double", double), ("foreign", foreign))}


def disk(free, state="0x600", role="data"):
    return {'flamegrid_disk_free_bytes{@,disk="%s"}' % role: free, 'flamegrid_disk_size_bytes{@,disk="%s"}' % role: "1000x600",
            'flamegrid_disk_state{@,disk="%s"}' % role: state}


def peer_lingers_minutes():
    """How long a service still has the metrics of one that has gone: common/net/rpc/peers.h, looked at every quarter of that."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common", "net", "rpc", "peers.h")
    with open(path, encoding="utf-8") as file:
        minutes = int(re.search(r"#define FG_PEERS_IDLE_NS \((\d+) \* FG_MINUTE_NS\)", file.read()).group(1))
    return minutes + (minutes + 3) // 4


CASES = (
    Case("FlamegridCanaryMismatch", 40, canary(double="0x30 1x120"), canary(lost="5x120"),
         "The canary found 1 wrong profiles in answers within an hour."),
    Case("FlamegridCanaryMismatch", 40, canary(lost="0x30 1x120"), canary(double="5x120"),
         "The canary found 1 wrong profiles in answers within an hour."),
    Case("FlamegridCanaryMismatch", 40, canary(foreign="0x30 1x120"), canary(foreign="5x120"),
         "The canary found 1 wrong profiles in answers within an hour."),
    Case("FlamegridCanaryStalled", 30,
         {"flamegrid_canary_profiles_acknowledged_total{@}": "0+100x10 1000x60", "flamegrid_canary_reads_total{@}": "0+10x60"},
         {"flamegrid_canary_profiles_acknowledged_total{@}": "0+100x10 1000x8 1001x60", "flamegrid_canary_reads_total{@}": "0+10x60"},
         "For ten minutes no push of the canary was acknowledged, or no query was answered."),
    Case("FlamegridCanaryStalled", 30,
         {"flamegrid_canary_profiles_acknowledged_total{@}": "0+100x60", "flamegrid_canary_reads_total{@}": "0+10x10 100x60"},
         {"flamegrid_canary_profiles_acknowledged_total{@}": "0+1x60", "flamegrid_canary_reads_total{@}": "0+1x60"},
         "For ten minutes no push of the canary was acknowledged, or no query was answered."),

    Case("FlamegridWriteErrorBudgetBurn", 70, requests("ingest", "0+980x600", "0+20x600"), requests("ingest", "0+995x600", "0+5x600"),
         "2% of uploads are answered with 5xx; the objective is 0.1 %."),
    # Slower, for longer: six times the budget over six hours.
    Case("FlamegridWriteErrorBudgetBurn", 400, requests("push_v1_pusherservice_push", "0+993x600", "0+7x600"),
         requests("push_v1_pusherservice_push", "0+995x600", "0+5x600"), "0.7% of uploads are answered with 5xx; the objective is 0.1 %."),
    Case("FlamegridWriteErrorBudgetLow", 500, requests("v1development_profiles", "0+998x600", "0+2x600"),
         requests("v1development_profiles", "0+9995x600", "0+5x600"),
         "0.2% of the uploads of three days were answered with 5xx; the objective is 0.1 %."),
    Case("FlamegridReadErrorBudgetBurn", 70, requests("selectmergestacktraces", "0+900x600", "0+100x600"),
         requests("selectmergestacktraces", "0+975x600", "0+25x600"), "10% of queries are answered with 5xx; the objective is 0.5 %."),
    Case("FlamegridReadErrorBudgetBurn", 400, requests("render", "0+960x600", "0+40x600"), requests("ready", "0+900x600", "0+100x600"),
         "4% of queries are answered with 5xx; the objective is 0.5 %."),
    Case("FlamegridReadErrorBudgetLow", 500, requests("series", "0+990x600", "0+10x600"), requests("series", "0+996x600", "0+4x600"),
         "1% of the queries of three days were answered with 5xx; the objective is 0.5 %."),

    Case("FlamegridAcknowledgementsFailing", 20,
         {'flamegrid_distributor_uploads_refused_total{@,reason="unavailable"}': "0+2x60", "flamegrid_distributor_uploads_total{@}": "0+100x60"},
         {'flamegrid_distributor_uploads_refused_total{@,reason="unavailable"}': "0+1x60",
          'flamegrid_distributor_uploads_refused_total{@,reason="busy"}': "0+50x60", "flamegrid_distributor_uploads_total{@}": "0+100x60"},
         "2% of uploads are refused because too few ingesters store them."),
    Case("FlamegridIngesterRefusesPushes", 10, {"flamegrid_ingester_takes_pushes{@}": "1x5 0x10"}, {"flamegrid_ingester_takes_pushes{@}": "1x15"},
         "node-1:5040 refuses pushes, as its disk is full or a write failed.", INSTANCE),
    Case("FlamegridCommitSlow", 40, durations("flamegrid_ingester_commit_duration_seconds", {"0.5": 90, "1": 100, "+Inf": 100}),
         durations("flamegrid_ingester_commit_duration_seconds", {"0.25": 90, "0.5": 100, "+Inf": 100}),
         "The 99th percentile of group commits of node-1:5040 is 950ms.", INSTANCE),
    Case("FlamegridWorkersSaturated", 30, {'flamegrid_worker_refused_jobs_total{@,lane="query"}': "0+60x60"},
         {'flamegrid_worker_refused_jobs_total{@,lane="query"}': "7x60"},
         "node-1:5040 refuses 1 jobs per second of the lane query.", {**INSTANCE, "lane": "query"}),

    Case("FlamegridDiskSpaceLow", 30, disk("199x60"), disk("200x60"), '19.9% of the disk "data" of node-1:5040 are free.',
         {**INSTANCE, "disk": "data"}),
    # A disk that has a cache may be fuller, until the program says that it is low.
    Case("FlamegridDiskSpaceLow", 30, disk("100x60", "1x60", "cache"), disk("100x60", "0x60", "cache"),
         '10% of the disk "cache" of node-1:5040 are free.', {**INSTANCE, "disk": "cache"}),
    Case("FlamegridDiskFullSoon", 90, disk("700-3x600"), disk("700-1x600"),
         '43% of the disk "data" of node-1:5040 are free; it is full in less than four hours if it fills as in the last one.', {**INSTANCE, "disk": "data"}),
    Case("FlamegridDiskFullSoon", 90, disk("600-2x600"), disk("10000-42x600"),
         '42% of the disk "data" of node-1:5040 are free; it is full in less than four hours if it fills as in the last one.', {**INSTANCE, "disk": "data"}),

    Case("FlamegridMemberAway", 20,
         {'flamegrid_rpc_peer_connected{@,peer="ingester-2"}': "1x5 0x20",
          'flamegrid_rpc_peer_connected{cluster="eu",namespace="profiles",instance="node-2:5040",peer="ingester-2"}': "1x5 0x20"},
         {'flamegrid_rpc_peer_connected{@,peer="ingester-2"}': "1x12 0x4 1x9"},
         "2 services have had no connection to ingester-2 for five minutes.", {"peer": "ingester-2"}),
    # After a rollout or a scale-down: the one that called it has its metrics for a while, and they end at the minute 20.
    Case("FlamegridMemberAway", 20, {'flamegrid_rpc_peer_connected{@,peer="querier-2"}': "1x5 0x20"},
         {'flamegrid_rpc_peer_connected{@,peer="querier-2"}': "1x%d 0x%d" % (20 - peer_lingers_minutes() - 1, peer_lingers_minutes())},
         "1 services have had no connection to querier-2 for five minutes.", {"peer": "querier-2"}),
    Case("FlamegridRingNotDrained", 150, {"flamegrid_ring_undrained_revisions{@}": "2x200"},
         {"flamegrid_ring_undrained_revisions{@}": "2x110 0 2x90"},
         "Queries ask the owners of 2 older revisions of the ring, as an ingester has not committed what it holds."),
    Case("FlamegridMaintenanceOverdue", 20, {"flamegrid_ring_maintenance_seconds{@}": "901x60"}, {"flamegrid_ring_maintenance_seconds{@}": "900x60"},
         "An ingester has been in maintenance for 15m 1s; others wait for it before they stop."),
    Case("FlamegridCallsRefused", 20, {'flamegrid_rpc_refused_total{@,reason="role"}': "0+1x60"},
         {'flamegrid_rpc_refused_total{@,reason="role"}': "9x60"},
         "node-1:5040 refused 10 calls within ten minutes: role.", {**INSTANCE, "reason": "role"}),
    Case("FlamegridQueriersUnreachable", 20, {'flamegrid_query_proxy_requests_total{@,result="unavailable"}': "0+1x60"},
         {'flamegrid_query_proxy_requests_total{@,result="refused"}': "0+1x60"},
         "node-1:5040 could not pass on 10 queries within ten minutes.", INSTANCE),

    Case("FlamegridBucketErrors", 30,
         {'flamegrid_bucket_errors_total{@,op="put"}': "0+2x60", 'flamegrid_bucket_requests_total{@,op="put"}': "0+100x60"},
         {'flamegrid_bucket_errors_total{@,op="put"}': "0+1x60", 'flamegrid_bucket_requests_total{@,op="put"}': "0+101x60"},
         "2% of the requests to the bucket fail after all retries."),
    Case("FlamegridObjectsDamaged", 20, {"flamegrid_damaged_objects{@}": "0x10 3x20", "flamegrid_damaged_reads_total{@}": "0x60"},
         {"flamegrid_damaged_objects{@}": "3x10 0x20", "flamegrid_damaged_reads_total{@}": "3x60"},
         "Segments or blocks cannot be read: 3 were found damaged or missing."),
    Case("FlamegridObjectsDamaged", 20, {"flamegrid_damaged_objects{@}": "0x60", "flamegrid_damaged_reads_total{@}": "0+1x60"},
         {"flamegrid_damaged_objects{@}": "0x60", "flamegrid_damaged_reads_total{@}": "0x60"},
         "Segments or blocks cannot be read: 10 were found damaged or missing."),

    Case("FlamegridCompactionBehind", 30, {"flamegrid_compactor_lag_seconds{@}": "10801x60"}, {"flamegrid_compactor_lag_seconds{@}": "10800x60"},
         "The oldest segment that no block covers is 3h 0m 1s old."),
    Case("FlamegridCompactionFailing", 90, {"flamegrid_compactor_tenants_failing{@}": "1x120"},
         {"flamegrid_compactor_tenants_failing{@}": "1x60 0 1x60"}, "The compaction of 1 tenants has failed for an hour."),
    Case("FlamegridCompactorAbsent", 30, {"flamegrid_ingester_takes_pushes{@}": "1x60"}, {"flamegrid_compactor_lag_seconds{@}": "0x60"},
         "Prometheus has had no metrics of a compactor for a quarter of an hour.", {"cluster": None, "namespace": None}),
    Case("FlamegridDeletionsWaiting", 30, {"flamegrid_compactor_oldest_deletion_seconds{@}": "21601x60"},
         {"flamegrid_compactor_oldest_deletion_seconds{@}": "21600x60"},
         "The data of a deletion that was requested 6h 0m 1s ago is not removed yet."),

    Case("FlamegridAnswersIncomplete", 30,
         {"flamegrid_querier_answers_incomplete_total{@}": "0+2x60", "flamegrid_querier_queries_total{@}": "0+100x60"},
         {"flamegrid_querier_answers_incomplete_total{@}": "0+1x60", "flamegrid_querier_queries_total{@}": "0+101x60"},
         "2% of answers are marked incomplete."),
    Case("FlamegridQueriesSlow", 40, durations("flamegrid_querier_query_duration_seconds", {"10": 90, "25": 100, "+Inf": 100}),
         durations("flamegrid_querier_query_duration_seconds", {"5": 90, "10": 100, "+Inf": 100}),
         "The 99th percentile of queries is 23.5s."),
    Case("FlamegridRulesBehind", 30, {'flamegrid_querier_rule_scheduled_total{@,result="skipped"}': "0+1x60"},
         {'flamegrid_querier_rule_scheduled_total{@,result="skipped"}': "7x60",
          'flamegrid_querier_rule_scheduled_total{@,result="failed"}': "0+1x60"},
         "15 minutes of tenants with recording rules were skipped within fifteen minutes."),

    Case("FlamegridTenantNearLimit", 20, {'flamegrid_tenant_limit_used_ratio{@,tenant="shop",limit="ingestion_rate_mb"}': "0.81x60"},
         {'flamegrid_tenant_limit_used_ratio{@,tenant="shop",limit="ingestion_rate_mb"}': "0.8x60",
          'flamegrid_tenant_limit_used_ratio{@,tenant="till",limit="ingestion_rate_mb"}': "1x60"},
         "The tenant shop uses 81% of ingestion_rate_mb.", {"tenant": "shop", "limit": "ingestion_rate_mb"}),
    Case("FlamegridTenantLimited", 20, {'flamegrid_tenant_limit_used_ratio{@,tenant="shop",limit="ingestion_limit"}': "1x60"},
         {'flamegrid_tenant_limit_used_ratio{@,tenant="shop",limit="ingestion_limit"}': "0.99x60"},
         "The tenant shop asks for 100% of ingestion_limit.", {"tenant": "shop", "limit": "ingestion_limit"}),
    Case("FlamegridSeriesRefused", 20, {'flamegrid_ingester_refused_growth_total{@,reason="catalog_full"}': "0+3x60"},
         {'flamegrid_ingester_refused_growth_total{@,reason="catalog_full"}': "3x60"},
         "Ingesters refused 30 pushes with new series within ten minutes: catalog_full.", {"reason": "catalog_full"}),

    Case("FlamegridCondition", 10, {'flamegrid_condition{@,condition="commit_failing"}': "0x5 1x10"},
         {'flamegrid_condition{@,condition="commit_failing"}': "0x20", 'flamegrid_condition{@,condition="forward_late"}': "1x20",
          'flamegrid_condition{@,condition="clock_off"}': "1x20"},
         "node-1:5040 has the condition commit_failing; its GET /ready gives the reason.", {**INSTANCE, "condition": "commit_failing"}),
    # These have alerts of their own; any other condition of forwarding would not.
    Case("FlamegridCondition", 10, {'flamegrid_condition{@,condition="forward_new"}': "1x20"},
         {'flamegrid_condition{@,condition="forward_%s"}' % which: "1x20" for which in ("denied", "filling", "late", "paused", "unread")},
         "node-1:5040 has the condition forward_new; its GET /ready gives the reason.", {**INSTANCE, "condition": "forward_new"}),
    Case("FlamegridMemoryHigh", 30, {"process_resident_memory_bytes{@}": "91x60", "flamegrid_memory_max_bytes{@}": "100x60"},
         {"process_resident_memory_bytes{@}": "90x60", "flamegrid_memory_max_bytes{@}": "100x60"},
         "node-1:5040 uses 91% of memory_max_bytes.", INSTANCE),
    Case("FlamegridClientsRefused", 20,
         {"flamegrid_http_answers_refused_total{@}": "0x60", 'flamegrid_http_refused_total{@,reason="too_many_connections"}': "0+1x60"},
         {"flamegrid_http_answers_refused_total{@}": "4x60", 'flamegrid_http_refused_total{@,reason="no_budget"}': "4x60",
          'flamegrid_http_refused_total{@,reason="not_found"}': "0+1x60"},
         "node-1:5040 refused 10 requests, connections or answers within ten minutes.", INSTANCE),
    Case("FlamegridClientsRefused", 20,
         {"flamegrid_http_answers_refused_total{@}": "0+1x60", 'flamegrid_http_refused_total{@,reason="no_budget"}': "0x60"},
         {"flamegrid_http_answers_refused_total{@}": "0x60", 'flamegrid_http_refused_total{@,reason="too_slow"}': "0+1x60"},
         "node-1:5040 refused 10 requests, connections or answers within ten minutes.", INSTANCE),
    Case("FlamegridForeignPages", 40, {'flamegrid_http_refused_total{@,reason="host"}': "0x30 1x30"},
         {'flamegrid_http_refused_total{@,reason="malformed"}': "0x30 1x30"},
         "node-1:5040 refused 1 requests of other sites, or for other names, within an hour.", INSTANCE),
    Case("FlamegridLoopLag", 20, {"flamegrid_loop_lag_seconds{@}": "1.5x60"}, {"flamegrid_loop_lag_seconds{@}": "1x60"},
         "Messages to an event loop of node-1:5040 wait for up to 1.5s.", INSTANCE),
    Case("FlamegridFileDescriptorsLow", 30,
         {"process_open_fds{@}": "81x60", "process_max_fds{@}": "100x60", 'flamegrid_build_info{@,version="1",revision="a"}': "1x60"},
         {"process_open_fds{@}": "80x60", "process_max_fds{@}": "100x60", 'flamegrid_build_info{@,version="1",revision="a"}': "1x60"},
         "node-1:5040 uses 81% of the file descriptors that it may have.", INSTANCE),
    # Processes of others have these metrics, too.
    Case("FlamegridFileDescriptorsLow", 30,
         {"process_open_fds{@}": "99x60", "process_max_fds{@}": "100x60", 'flamegrid_build_info{@,version="1",revision="a"}': "1x60"},
         {"process_open_fds{@}": "99x60", "process_max_fds{@}": "100x60"},
         "node-1:5040 uses 99% of the file descriptors that it may have.", INSTANCE),
    Case("FlamegridClockOff", 20, {"flamegrid_clock_offset_seconds{@}": "-31x60"}, {"flamegrid_clock_offset_seconds{@}": "-30x60"},
         "The clock of node-1:5040 differs from that of the object store by 31s.", INSTANCE),

    # Time begins at 0 here.
    Case("FlamegridCertificateExpiring", 20, {"flamegrid_tls_certificate_expiry_timestamp_seconds{@}": "1209700x60"},
         {"flamegrid_tls_certificate_expiry_timestamp_seconds{@}": "1211000x60",
          "flamegrid_rpc_tls_certificate_expiry_timestamp_seconds{@}": "0x60"},
         "The certificate of node-1:5040 for listen expires in 13d 23h 41m 40s.", {**INSTANCE, "of": "listen"}),
    Case("FlamegridCertificateExpiring", 20, {"flamegrid_rpc_tls_certificate_expiry_timestamp_seconds{@}": "1209700x60"},
         {"flamegrid_rpc_tls_certificate_expiry_timestamp_seconds{@}": "1211000x60"},
         "The certificate of node-1:5040 for rpc expires in 13d 23h 41m 40s.", {**INSTANCE, "of": "rpc"}),
    Case("FlamegridReloadFailed", 10, {'flamegrid_reload_failed{@,file="tenants"}': "0x5 1x10"}, {'flamegrid_reload_failed{@,file="tenants"}': "1x5 0x10"},
         "A changed file is invalid, so node-1:5040 keeps to the last good one: tenants.", {**INSTANCE, "file": "tenants"}),
    Case("FlamegridReloadFailed", 40, {'flamegrid_scrape_file_reads_total{@,result="failure"}': "0x30 1x30"},
         {'flamegrid_scrape_file_reads_total{@,result="success"}': "0x30 1x30"},
         "A changed file is invalid, so node-1:5040 keeps to the last good one: targets.", {**INSTANCE, "file": "targets"}),
    Case("FlamegridAuditRecordsLost", 20, {"flamegrid_audit_lost_records_total{@}": "0+1x60"}, {"flamegrid_audit_lost_records_total{@}": "1x60"},
         "node-1:5040 lost 10 records of the audit within ten minutes.", INSTANCE),

    Case("FlamegridForwardBehind", 20, {'flamegrid_forward_oldest_pending_seconds{@,target="central"}': "601x60"},
         {'flamegrid_forward_oldest_pending_seconds{@,target="central"}': "600x60"},
         "The oldest profile of node-1:5040 that waits for central has waited for 10m 1s.", {**INSTANCE, "target": "central"}),
    Case("FlamegridForwardQueueFilling", 20,
         {'flamegrid_forward_pending_bytes{@,target="central"}': "81x60", 'flamegrid_forward_queue_max_bytes{@,target="central"}': "100x60"},
         {'flamegrid_forward_pending_bytes{@,target="central"}': "80x60", 'flamegrid_forward_queue_max_bytes{@,target="central"}': "100x60"},
         "81% of queue_max_bytes of central are in use at node-1:5040.", {**INSTANCE, "target": "central"}),
    Case("FlamegridForwardDropped", 20, {'flamegrid_forward_dropped_profiles_total{@,target="central",reason="full"}': "0+1x60"},
         {'flamegrid_forward_dropped_profiles_total{@,target="central",reason="operator"}': "0+1x60"},
         "node-1:5040 dropped 15 profiles for central within a quarter of an hour: full.",
         {**INSTANCE, "target": "central", "reason": "full"}),
    Case("FlamegridForwardPaused", 30, {'flamegrid_forward_paused{@,target="central"}': "1x60"},
         {'flamegrid_forward_paused{@,target="central"}': "1x20 0 1x60"},
         "node-1:5040 sends nothing to central: an operator has paused it, or it refuses the credentials.", {**INSTANCE, "target": "central"}),
    Case("FlamegridForwardUnread", 20, {'flamegrid_forward_unread{@,target="central"}': "1x60"},
         {'flamegrid_forward_unread{@,target="central"}': "1x3 0 1x3 0x60"},
         "node-1:5040 sends nothing to central: it cannot read its own store, or a file of credentials, or has no memory for answers.", {**INSTANCE, "target": "central"}),
)
