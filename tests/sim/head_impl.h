/*
 * What the files of a head share; nobody else includes it.
 *
 *     head.c      what is durable; life; writes and reads
 *     effects.c   a step of the core, and what comes of its effects
 */
#ifndef FG_TESTS_SIM_HEAD_IMPL_H
#define FG_TESTS_SIM_HEAD_IMPL_H

#include "ingester/keys.h"
#include "tests/sim/world.h"

enum { HEAD_QUEUE_MAX = 64 };

struct stored {
    struct item item;
    uint32_t chunk;
};

struct mark {
    struct ing_head_group_key group;
    uint32_t number;
    enum ing_chunk_state state;
    uint64_t cut, generation;
};

/* An effect with copies of the chunks it is about. */
struct pending {
    struct ing_segments_effect effect;
    struct mark *chunks;
};

struct head {
    struct world *world;
    struct identity identity;
    bool up, ended;
    uint64_t life;
    int64_t skew_ns, cut_off_until_ns, without_bucket_until_ns, unfit_until_ns;
    int64_t blurred_until_ns;

    /* Durable. */
    struct stored *stored;
    uint32_t n_stored, cap_stored;
    struct mark *marks; /* of chunks that are not open */
    uint32_t n_marks, cap_marks;
    uint64_t last_cut;

    /* Of this life. */
    struct ing_member *member;
    struct ing_segments_core *core;
    struct fg_manifests *manifests;
    struct fg_manifest *l0; /* handed in last */
    struct fg_arena *upload_arena;
    struct fg_l0_new upload;
    struct pending queue[HEAD_QUEUE_MAX];
    uint32_t n_queue;
    bool in_queue;
    uint64_t drains;
    int64_t wake_mono_ns;
};

/* ---- head.c ---- */

struct owner head_self(struct head *head);
void head_set_mark(struct head *head, const struct mark *mark);
void head_evict_chunk(struct head *head, const struct mark *chunk);
/* By chance. */
bool head_write_fails(struct head *head);
bool head_has(const struct head *head, const struct item *item);
/* Is an object damaged, so that it does not tell the head what it has of the group? */
bool head_is_blurred(const struct head *head, const struct ing_head_group_key *group);

/* ---- effects.c ---- */

/* One event; then all effects, with crashes before, between and after them. */
void head_step(struct head *head, struct ing_segments_event event);

#endif
