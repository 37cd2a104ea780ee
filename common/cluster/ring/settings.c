#include "common/cluster/ring/settings.h"

#include "common/base/str.h"

#define CONF(field) FG_CONF_AT(struct fg_ring_settings, field)

/* clang-format off */
#define POLL_FIELD                                                                                 \
    {"poll", FG_CONF_NS, CONF(poll_ns), .def = "5s", .min = "100ms", .max = "10m",                 \
     .doc = "Maximum interval between reads of the ring from the bucket."}

const struct fg_conf_field fg_ring_follower_fields[] = {POLL_FIELD};

const struct fg_conf_field fg_ring_member_fields[] = {
    POLL_FIELD,
    {"name", FG_CONF_STRING, CONF(name), .def = "",
     .doc = "Name of this member. The ring assigns ownership by name, so keep it through restarts. Empty: the host name."},
    {"zone", FG_CONF_STRING, CONF(zone), .def = "",
     .doc = "Zone of this member. Replicas of a profile are placed in different zones while there are enough zones."},
    {"address", FG_CONF_STRING, CONF(address), .def = "",
     .doc = "Address at which other services call this member. Empty: `rpc_listen`."},
    {"http", FG_CONF_STRING, CONF(http), .def = "",
     .doc = "HTTP address of this member, HOST:PORT, shown to operators. Empty: `listen`."},
    {"replicas", FG_CONF_UINT, CONF(replicas), .def = "3", .min = "1", .max = "3",
     .doc = "Replication factor of a newly created ring. Change it later with \"flamegrid ring replicate\"."},
    {"maintenance_wait", FG_CONF_NS, CONF(maintenance_wait_ns), .def = "5m", .min = "0", .max = "1h",
     .doc = "How long a shutdown for a restart waits while another member is in maintenance, that is, has stopped and is not ready again, or does not answer. Members of one zone do not wait for each other if there are three replicas and at least three zones. The member serves while it waits; when the time is over, it stops anyway. Keep it below half of the time that the supervisor gives the process to stop. A second SIGTERM ends the wait. 0: do not wait."},
    {"allow_new", FG_CONF_BOOL, CONF(allow_new), .def = "false",
     .doc = "Creates a ring if none exists, even if ingesters have committed to the bucket before. Use it only after the ring and all of its copies are lost, and set it on all ingesters. Queries miss the profiles that other ingesters hold until all ingesters have joined."},
};
/* clang-format on */
const size_t fg_ring_n_follower_fields = FG_COUNT(fg_ring_follower_fields);
const size_t fg_ring_n_member_fields = FG_COUNT(fg_ring_member_fields);

/* True if the address means all addresses of this machine: others cannot call it. */
static bool is_any(const char *address)
{
    static const char *const anys[] = {"//0.0.0.0:", "//[::]:", "//*:", "//:"};

    for (size_t i = 0; i < FG_COUNT(anys); i++)
        if (strstr(address, anys[i]) != NULL)
            return true;
    return false;
}

enum fg_code fg_ring_settings_member(struct fg_ring_settings *settings, const char *rpc_listen,
                                     const char *http_listen, struct fg_id store,
                                     struct fg_ring_watch_member *ret_member, struct fg_err *err)
{
    const char *address = settings->address[0] == '\0' ? rpc_listen : settings->address;

    if (fg_conf_default_host(&settings->name, "ring.name", err) != FG_OK)
        return err->code;
    if (is_any(address))
        return fg_fail(err, FG_E_INVALID,
                       "other services cannot call this member at %s: set ring.address", address);
    *ret_member = (struct fg_ring_watch_member){
        .name = settings->name,
        .zone = settings->zone,
        .address = address,
        .http = settings->http[0] == '\0' ? http_listen : settings->http,
        .store = store,
        .replicas = (unsigned)settings->replicas,
    };
    return FG_OK;
}
