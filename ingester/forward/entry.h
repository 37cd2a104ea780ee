/*
 * What the store has of the outbox (outbox.h), as bytes.
 *
 * META
 *   'o'       -> varint: numbers of targets below it were given
 *   'o' name  -> u8 1, varint number of the target, varint reserved, u8 flags (1: paused)
 *                reserved: entries of the target have lesser numbers, so a start gives greater ones
 *   'r' name  -> a resend, written together with 'o' name: u8 1, u8 state, zigzag from, until,
 *                begun, ended, varint-length tenant, zigzag time, id 16 bytes, varint sent, known,
 *                filtered, refused, lost, u8 1: incomplete
 *
 * OUTBOX and OUTBOX_DEAD
 *   be16 target, be64 number of the entry -> as below
 *
 *   entry  -> u8 1, the profile's key (HEAD_PROFILE_KEY_BYTES, keys.h), zigzag received, varint
 *             bytes of its record, u8 n, n * 16 bytes: ids of stores through which it has come
 *   dead   -> u8 1, zigzag died, varint-length reason, the bytes of the entry as they were
 *
 * Times are wall time in ns. A version that is not 1 is damage: a newer program writes what an
 * older one cannot send.
 *
 * Pure.
 */
#ifndef FG_INGESTER_FORWARD_ENTRY_H
#define FG_INGESTER_FORWARD_ENTRY_H

#include "common/model/tenant_id.h"
#include "ingester/keys.h"

enum {
    OUTBOX_VIA_MAX = 4,            /* stores; the receiver refuses longer ways */
    OUTBOX_REASON_MAX_BYTES = 256, /* of a dead entry */
    OUTBOX_KEY_BYTES = 2 + 8,
    OUTBOX_ENTRY_MAX_BYTES =
        1 + HEAD_PROFILE_KEY_BYTES + 10 + 10 + 1 + OUTBOX_VIA_MAX * FG_ID_BYTES,
    OUTBOX_META_PREFIX = 'o',
    OUTBOX_RESEND_PREFIX = 'r',
};

/* Through which stores a profile has come; the last one has sent it here. */
struct ing_outbox_via {
    struct fg_id stores[OUTBOX_VIA_MAX];
    uint8_t n;
};

struct ing_outbox_entry {
    struct ing_head_profile_key key;
    int64_t received_wall_ns;
    uint64_t bytes; /* of the profile's record */
    struct ing_outbox_via via;
};

/* What META has of a target. */
struct ing_outbox_meta {
    uint16_t number;
    uint64_t reserved; /* the numbers of its entries are below it */
    bool paused;
};

enum ing_resend_state {
    RESEND_NONE,
    RESEND_COMMITS, /* what the head has of before is to be committed first */
    RESEND_READS,   /* from `tenant` and the place on */
    RESEND_DONE,
};

/* A resend: committed profiles of a time are sent to a target, whether it got them before or not.
 * It goes from tenant to tenant, by name, and through the profiles of each by time and id. */
struct ing_resend {
    enum ing_resend_state state;
    int64_t from_ns, until_ns; /* times of profiles, [from, until) */
    int64_t begun_wall_ns, ended_wall_ns;
    char tenant[FG_TENANT_MAX_BYTES + 1]; /* that it is at; "": before the first one */
    int64_t time_ns;                      /* the place: what is up to here in the order of */
    struct fg_id id;                      /* (time, id) is done */
    uint64_t sent, known;                 /* the target has them; those that it had before */
    uint64_t filtered;                    /* the target does not want them */
    uint64_t refused;                     /* the target refuses them for good */
    uint64_t lost;                        /* only rollups are left of them */
    bool incomplete;                      /* data that cannot be read was left out */
};

/* Append a key of META: of a target, or (an empty name) of the next number. */
void ing_outbox_put_meta_key(struct fg_buf *out, struct fg_slice name);

/* Append a value of META. */
void ing_outbox_put_meta(struct fg_buf *out, const struct ing_outbox_meta *meta);

/* Reads a value of META. Returns false if it is none. */
bool ing_outbox_get_meta(struct fg_slice in, struct ing_outbox_meta *ret_meta) fg_must_check;

/* Append a key of META of a resend, and its value. */
void ing_outbox_put_resend_key(struct fg_buf *out, struct fg_slice name);
void ing_outbox_put_resend(struct fg_buf *out, const struct ing_resend *resend);

/* Reads such a value. Returns false if it is none. */
bool ing_outbox_get_resend(struct fg_slice in, struct ing_resend *ret_resend) fg_must_check;

/* Appends a key of OUTBOX and OUTBOX_DEAD. */
void ing_outbox_put_key(struct fg_buf *out, uint16_t target, uint64_t seq);

/* Reads such a key. Returns false if it is none. */
bool ing_outbox_get_key(struct fg_slice in, uint16_t *ret_target, uint64_t *ret_seq) fg_must_check;

/* Appends the value of an entry. */
void ing_outbox_put_entry(struct fg_buf *out, const struct ing_outbox_entry *entry);

/* Reads an entry. Returns false if it is damaged. */
bool ing_outbox_get_entry(struct fg_slice in, struct ing_outbox_entry *ret_entry) fg_must_check;

/* Appends the value of a dead entry. reason: cut at OUTBOX_REASON_MAX_BYTES. */
void ing_outbox_put_dead(struct fg_buf *out, int64_t died_wall_ns, struct fg_slice reason,
                         struct fg_slice entry);

/* Reads a dead entry; reason and entry are borrowed. Returns false if it is damaged. */
bool ing_outbox_get_dead(struct fg_slice in, int64_t *ret_died_wall_ns, struct fg_slice *ret_reason,
                         struct fg_slice *ret_entry) fg_must_check;

#endif
