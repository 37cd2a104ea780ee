/*
 * What the store has of the outbox (outbox.h), as bytes.
 *
 * META
 *   'o'       -> varint: numbers of targets below it were given
 *   'o' name  -> u8 1, varint number of the target, varint reserved, u8 flags (1: paused)
 *                reserved: entries of the target have lesser numbers, so a start gives greater ones
 *   'r' name  -> a resend, written together with 'o' name: u8 1, u8 state, zigzag from, until,
 *                begun, ended, varint-length tenant, zigzag time, id 16 bytes, varint sent, known,
 *                filtered, refused, lost, u8 1: incomplete. Its place is the least one
 *   'p' name  -> the places of a resend that reads, written together with 'r' name: u8 1, zigzag
 *                begun, varint-length last tenant, varint n, by tenant n * (varint-length tenant,
 *                zigzag time, id 16 bytes). It holds if its least place is that of 'r': a version
 *                that does not know it moves only that one, and sends again what is beyond
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

#include "ingester/forward/resend.h"
#include "ingester/keys.h"

enum {
    OUTBOX_VIA_MAX = 4,            /* stores; the receiver refuses longer ways */
    OUTBOX_REASON_MAX_BYTES = 256, /* of a dead entry */
    OUTBOX_KEY_BYTES = 2 + 8,
    OUTBOX_ENTRY_MAX_BYTES =
        1 + HEAD_PROFILE_KEY_BYTES + 10 + 10 + 1 + OUTBOX_VIA_MAX * FG_ID_BYTES,
    OUTBOX_META_PREFIX = 'o',
    OUTBOX_RESEND_PREFIX = 'r',
    OUTBOX_RESEND_TENANTS_PREFIX = 'p',
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

/* Append a key of META of the places of a resend, and its value. begun_wall_ns: of the resend. */
void ing_outbox_put_resend_tenants_key(struct fg_buf *out, struct fg_slice name);
void ing_outbox_put_resend_tenants(struct fg_buf *out, int64_t begun_wall_ns,
                                   const struct ing_resend_tenants *tenants);

/* Reads such a value. Returns false if it is none. */
bool ing_outbox_get_resend_tenants(struct fg_slice in, int64_t *ret_begun_wall_ns,
                                   struct ing_resend_tenants *ret_tenants) fg_must_check;

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
