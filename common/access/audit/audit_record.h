/*
 * Records of the audit and the chains that they form. Pure: no I/O, no clock, no thread.
 *
 * A record is a line of JSON without spaces, its members always in the same order:
 *
 *     {"seq":17,"prev":"<64 hex digits>","ms":1700000000000,"kind":"admin","op":3,"phase":"begin",
 *      "who":"token 4uJc0TqZ (ops)","method":"POST","route":"/api/tokens","source":"10.0.0.7"}
 *
 * `prev` is the SHA-256 of the line before it, without its line feed. A process writes one chain of
 * records from its start to its end, cut into objects of the bucket:
 *
 *     audit/YYYY/MM/DD/HH/<chain>-<n>.ndjson.zst     the hour is that of the object's first record
 *
 * The first record of an object is of kind `object` and belongs to the chain like any other. So a
 * record that was changed, removed or moved shows by the hash, and an object that was removed by
 * the numbers. If records are missing at the end of a chain, that shows in two cases: the chain had
 * ended in order (kind `end`), or a later process began on the same data folder. The first record
 * of that process names the last record of the chain that it continues.
 *
 * Whoever can write to the bucket could compute all later hashes again, or cut the end off. Heads
 * that were kept elsewhere show that, too (`flamegrid audit verify --json`, then --known FILE).
 *
 * Thread: any; each writer and chain has one at a time.
 */
#ifndef FG_COMMON_ACCESS_AUDIT_AUDIT_RECORD_H
#define FG_COMMON_ACCESS_AUDIT_AUDIT_RECORD_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/time.h"

#define FG_AUDIT_PREFIX "audit/"
#define FG_AUDIT_SUFFIX ".ndjson.zst"

enum {
    FG_AUDIT_HASH_BYTES = 32,
    FG_AUDIT_CHAIN_MAX_BYTES = 64,
    FG_AUDIT_NAME_MAX_BYTES = 128,
    FG_AUDIT_TEXT_MAX_BYTES = 1024,              /* of a member; longer ones are cut */
    FG_AUDIT_LINE_MAX_BYTES = 64 * 1024,         /* ten members of escapes only */
    FG_AUDIT_OBJECT_MAX_BYTES = 8 * 1024 * 1024, /* of lines; a writer stops at half of it */
};

enum fg_audit_kind {
    FG_AUDIT_OBJECT,    /* an object of a chain begins */
    FG_AUDIT_END,       /* the process ended in order */
    FG_AUDIT_ADMIN,     /* a change of tenants, tokens, roles or limits */
    FG_AUDIT_CHANGE,    /* of rules, settings and annotations */
    FG_AUDIT_DELETE,    /* profiles or uploads were deleted */
    FG_AUDIT_SHARE,     /* a profile was uploaded, which others can open by its link */
    FG_AUDIT_EXPORT,    /* profiles left as a file */
    FG_AUDIT_READ,      /* a query */
    FG_AUDIT_READS,     /* how many queries there were */
    FG_AUDIT_LOGIN,     /* of a person, or the end of a session */
    FG_AUDIT_REFUSED,   /* requests that the caller may not make */
    FG_AUDIT_RETENTION, /* old objects of the audit were deleted */
    FG_AUDIT_LOST,      /* so many records are missing here: they came too fast */
    FG_AUDIT_KINDS
};

/* A change is recorded before it is tried and after it has ended, with the same number `op`. */
enum fg_audit_phase { FG_AUDIT_WHOLE, FG_AUDIT_BEGIN, FG_AUDIT_RESULT, FG_AUDIT_PHASES };

/* What happened. Empty texts and zeros are left out. */
struct fg_audit_event {
    enum fg_audit_kind kind;
    uint64_t op;
    enum fg_audit_phase phase;
    struct fg_slice who;     /* fg_grant_describe() */
    struct fg_slice token;   /* id */
    struct fg_slice session; /* subject, which is unique at its issuer only */
    struct fg_slice issuer;
    struct fg_slice tenant; /* several: joined by '|' */
    struct fg_slice method, route;
    struct fg_slice detail; /* a selector, a name, why it was refused */
    struct fg_slice source; /* address of the caller */
    int64_t from_ms, to_ms; /* the range of time that it is about */
    uint64_t count;         /* requests, or objects */
    uint64_t bytes;
    unsigned status; /* of the answer */
};

/* A place in a chain. */
struct fg_audit_link {
    char chain[FG_AUDIT_CHAIN_MAX_BYTES + 1]; /* "": none */
    uint64_t seq;                             /* of its last record */
    uint8_t hash[FG_AUDIT_HASH_BYTES];        /* of that record */
    int64_t object_ms;                        /* time of the first record in its object */
};

struct fg_audit_record {
    uint64_t seq;
    uint8_t prev[FG_AUDIT_HASH_BYTES];
    int64_t ms;
    struct fg_audit_event event;
    /* Of kind OBJECT. */
    struct fg_slice chain;
    uint64_t object;
    struct fg_slice program, host;
    int64_t before_ms;              /* time of the first record in the object before; 0: none */
    struct fg_audit_link continues; /* of the first object */
};

const char *fg_audit_kind_name(enum fg_audit_kind kind);

/* Writes an event without the members that depend on its place: what fg_audit_append() takes. */
void fg_audit_write_event(const struct fg_audit_event *event, struct fg_buf *out);

/* Reads a line, without its line feed. Texts are borrowed from it or in the arena. Members that are
 * not known are skipped. FG_E_DECODE says what is wrong; FG_E_LIMIT: the arena is full. */
enum fg_code fg_audit_read(struct fg_slice line, struct fg_arena *arena,
                           struct fg_audit_record *ret_record, struct fg_err *err) fg_must_check;

/* ---- names ---- */

struct fg_audit_name {
    char chain[FG_AUDIT_CHAIN_MAX_BYTES + 1];
    uint64_t object;
    int64_t hour_ms; /* start of the hour */
};

/* Writes the name of an object whose first record has that time. */
void fg_audit_write_name(const char *chain, uint64_t object, int64_t ms,
                         char out[FG_AUDIT_NAME_MAX_BYTES]);
/* Writes the folder of an hour or, shorter, of a day: "audit/2026/11/26/". */
void fg_audit_write_day(int64_t ms, char out[FG_AUDIT_NAME_MAX_BYTES]);
/* Returns false if it is not a name of an object of the audit. */
bool fg_audit_read_name(struct fg_slice text, struct fg_audit_name *ret_name) fg_must_check;
/* Returns the start of the hour of a time since 1970. */
int64_t fg_audit_hour_ms(int64_t ms);

/* ---- writing ---- */

/* A chain that is being written. It is a value: a copy of it is where the writer was. */
struct fg_audit_writer {
    struct fg_audit_link head;  /* the last record; before the first one, only the name is set */
    const char *program, *host; /* borrowed */
    struct fg_audit_link continues; /* chain "": none */
    uint64_t next_seq, object;
    int64_t last_ms;
    int64_t before_ms; /* of the object before; 0: none */
    bool open;         /* the object has a record */
};

/* Returns a writer of a new chain, which is named by the program and 16 hex digits of a random
 * number. */
struct fg_audit_writer fg_audit_writer(const char *program, uint64_t random, const char *host);

/* Appends the line of an event, at `ms` or the time of the record before, whichever is later. An
 * object that is not open begins with a record of its own. Look at out->full. */
void fg_audit_append(struct fg_audit_writer *writer, int64_t ms, struct fg_slice event,
                     struct fg_buf *out);

/* Ends the object: the next record begins the next one. */
void fg_audit_next_object(struct fg_audit_writer *writer);

/*
 * Returns how much of a file of lines is whole: without a last line that was cut short when the
 * process was killed. *ret_link: its last record. 0: there is none, or the first is not of an
 * audit.
 */
size_t fg_audit_whole(struct fg_slice lines, struct fg_audit_link *ret_link,
                      uint64_t *ret_object) fg_must_check;

/* ---- verifying ---- */

/* The state of verifying a chain, object by object. Starts zeroed. */
struct fg_audit_chain {
    struct fg_audit_link head; /* the last record that was read */
    bool begun, ended;
    uint64_t first_object, next_object, next_seq;
    int64_t begin_ms, last_ms;
    int64_t before_ms;              /* of the object before the first one that is there */
    struct fg_audit_link continues; /* chain "": none, or the first object is not there */
    struct fg_audit_link known;     /* set before the first object: a record that was seen at an
                                     * earlier time; chain "": none */
    bool known_seen;
    uint64_t records, faults;
    int64_t horizon_ms; /* the latest time before which its records say objects were deleted */
};

/* Gets a sentence for each fault. */
typedef void (*fg_audit_on_fault)(void *arg, const char *chain, const char *sentence);

/* Looks at the next object of a chain, in the order of the numbers. After a fault it goes on with
 * what it finds. */
void fg_audit_check_object(struct fg_audit_chain *chain, const struct fg_audit_name *name,
                           struct fg_slice lines, fg_audit_on_fault on_fault, void *arg);
/* Notes that an object cannot be read. */
void fg_audit_check_unreadable(struct fg_audit_chain *chain, const struct fg_audit_name *name,
                               const char *why, fg_audit_on_fault on_fault, void *arg);

/*
 * Looks at what chains say of each other, after all their objects. Missing first objects are faults
 * unless a record of kind `retention` says that they were deleted. A chain may have a name and a
 * known record only: none of its objects is there.
 */
void fg_audit_check_links(struct fg_audit_chain *chains, size_t n, fg_audit_on_fault on_fault,
                          void *arg);

#endif
