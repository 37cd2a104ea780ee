/*
 * Repair between replicas: a member asks the other owners what they have that it lacks, and takes
 * it. So one that was down, or missed some pushes, comes to what it should have, and a later loss
 * of another disk finds enough replicas. It decides nothing about what is in an answer: readers
 * hear a quorum whether or not repair has come chunk.
 *
 *   for each other member:
 *     GROUPS   sums of its groups that are in no segment and that we own too, page after page
 *     FETCH    where they differ from ours: all ids; then, of what we lack, the profiles
 *     PUSH     to ourselves, under the newest revision: admitted, looked for and written like any
 *
 * A profile of the last minute may be on its way here, and is left. What another head has committed
 * and ours has not noticed yet, or the other way chunk, makes sums differ for nothing: ids settle
 * it, and a profile that is in a segment already is found there by the push.
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
    int64_t every_ns, young_ns;
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

/* Begins as soon as the seat is there. */
enum fg_code ing_repair_create(const struct ing_repair_config *config,
                               struct ing_repair **ret_repair, struct fg_err *err) fg_must_check;
/* Ends within a call's time, some seconds; before what it pushes to does. NULL is fine. */
void ing_repair_destroy(struct ing_repair *repair);

#endif
