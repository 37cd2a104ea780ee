/*
 * Repair between replicas: a member asks the other owners which profiles it lacks, and fetches
 * them. So a member that was down or missed some pushes gets what it should have, and a later loss
 * of another disk finds enough replicas. Repair decides no answer: readers hear a quorum whether or
 * not it has run.
 *
 *   for each other member:
 *     GROUPS   sums of its groups that are in no segment and that we own, too, page after page
 *     FETCH    of groups that differ: all ids; then the profiles that we lack
 *     PUSH     to ourselves, under the newest revision: checked and written as any push
 *
 * A profile of the last minute may still be on its way here, and is left out. If one head has
 * noticed a commit and the other has not, sums differ for no reason: then the ids agree, and the
 * push finds a profile that is in a segment already.
 *
 * Thread: one of its own. Memory: a page of sums, the ids of a group, some megabytes of profiles.
 */
#ifndef FG_INGESTER_REPAIR_REPAIR_H
#define FG_INGESTER_REPAIR_REPAIR_H

#include "common/net/rpc/peers.h"
#include "common/runtime/config.h"
#include "ingester/push.h"

struct ing_repair;

/* Settings, section "ingester.repair". */
struct ing_repair_settings {
    int64_t every_ns, min_age_ns;
    uint64_t rate_bytes;
};
extern const struct fg_conf_field ing_repair_fields[];
extern const size_t ing_repair_n_fields;

/* All borrowed. */
struct ing_repair_config {
    const struct ing_repair_settings *settings;
    struct fg_store *store;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    const struct ing_member *member; /* with a ring */
    struct ing_push_context *push;
    struct fg_peers *peers;
    struct fg_registry *registry;
    struct fg_clock *clock;
};

/* Starts the thread, which begins once this ingester is a member of the ring. FG_E_LIMIT: no more
 * threads. */
enum fg_code ing_repair_create(const struct ing_repair_config *config,
                               struct ing_repair **ret_repair, struct fg_err *err) fg_must_check;

/* Ends the thread, after a call under way: some seconds. Call it before the push context ends.
 * Accepts NULL. */
void ing_repair_destroy(struct ing_repair *repair);

#endif
