/*
 * The state that all uploads of a distributor share. distributor.c creates and destroys it; uploads
 * and the handlers of the interfaces use it.
 *
 * Thread: any. Pointers never change; what they point to is locked inside.
 */
#ifndef FG_DISTRIBUTOR_STATE_H
#define FG_DISTRIBUTOR_STATE_H

#include "common/model/tenant_quota.h"
#include "common/model/tenant_rate.h"
#include "common/runtime/work.h"
#include "distributor/delivery/delivery.h"
#include "distributor/otlp_senders.h"
#include "distributor/settings.h"
#include "distributor/shares.h"
#include "distributor/stack_names.h"
#include "distributor/workspace.h"

struct distributor {
    /* Borrowed, from struct dist_config. */
    const struct dist_settings *settings;
    struct fg_work *work; /* its INGEST lane */
    struct fg_tenants *tenants;
    struct fg_clock *clock;
    struct fg_id own_store; /* of the server; not before knows_own_store */
    _Atomic bool knows_own_store;
    struct fg_metrics *metrics; /* the registry's */

    struct fg_definition_cache *definition_cache;
    struct dist_stack_names *stack_names;
    struct dist_owners *owners;
    struct dist_deliveries deliveries;
    struct fg_rates *rates;                 /* token buckets of the tenants' push rates */
    struct fg_rates *forward_rates;         /* likewise, of what other servers forward to them */
    struct fg_quotas *quotas;               /* what tenants have sent in a day */
    struct dist_shares *shares;             /* divides both among the distributors */
    struct dist_otlp_senders *otlp_senders; /* that use older versions of OTLP */
    struct dist_workspaces workspaces;
    struct fg_loop *own_loop; /* of uploads of this process's own profiles; NULL: there are none */
    struct fg_slice own_tenant;
    _Atomic int64_t expired_mono_ns; /* when expired profiles were last logged; 0: never */
};

#endif
