/*
 * A service outside that wraps keys, as its clients (Vault, KMS) see it: requests with a time
 * limit, a cooldown after one that had no answer, and errors that say whose fault they are. A key
 * is wrapped once in its life and unwrapped once per process, so each request has a loop of its
 * own.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMMON_ACCESS_KEYS_KEY_SERVICE_H
#define FG_COMMON_ACCESS_KEYS_KEY_SERVICE_H

#include "common/access/keys/cooldown.h"
#include "common/access/keys/key_answer.h"
#include "common/base/json_writer.h"
#include "common/net/client_run.h"

#include <pthread.h>

#define FG_KEY_SERVICE_CONNECT_TIMEOUT_NS (5 * FG_SECOND_NS)

enum { FG_KEY_SERVICE_TEXT_MAX_BYTES = 4096 }; /* of what is wrapped, and of texts of answers */

struct fg_key_service;

/* What its clients do in their own ways. */
struct fg_key_service_ops {
    /* Adds headers to a request that has all else, in the arena. May wait. NULL: there are none. */
    enum fg_code (*sign)(struct fg_key_service *service, struct fg_client_request *http,
                         struct fg_arena *arena, struct fg_err *err);
    /* Notes that the service did not take what sign() has added. Returns false if there is nothing
     * else. Called after sign(). NULL with sign. */
    bool (*renew)(struct fg_key_service *service);
    enum fg_key_fault (*read_fault)(unsigned status, struct fg_slice document,
                                    struct fg_arena *arena, struct fg_slice *ret_why);
};

struct fg_key_service {
    const char *name; /* begins messages */
    const struct fg_key_service_ops *ops;
    pthread_mutex_t lock; /* of the next; held for moments */
    struct fg_cooldown cooldown;
};

/* Initialises it. name and ops are borrowed. */
void fg_key_service_init(struct fg_key_service *service, const char *name,
                         const struct fg_key_service_ops *ops);
/* Nobody asks any more. */
void fg_key_service_done(struct fg_key_service *service);

/*
 * Sends a POST with a JSON body, once more with new credentials if they were refused, and appends
 * the text `member` of the answer to `out`. http: url, headers, body, tls, token_file; the rest is
 * zeroed, and nothing of it has to be freed. FG_E_UNAVAILABLE: everything that goes wrong. Whatever
 * the service says may be put right there: no block is at fault. If it was not about what was
 * asked, a cooldown begins.
 */
enum fg_code fg_key_service_ask(struct fg_key_service *service, struct fg_client_request *http,
                                const char *member, struct fg_buf *out,
                                struct fg_err *err) fg_must_check;

/* Does the same for an answer whose text is a key in base64, which is overwritten. */
enum fg_code fg_key_service_ask_key(struct fg_key_service *service, struct fg_client_request *http,
                                    const char *member, struct fg_seal_key *ret_key,
                                    struct fg_err *err) fg_must_check;

/* Adds a member whose text is the bytes in base64; at most FG_KEY_SERVICE_TEXT_MAX_BYTES. */
void fg_key_service_put_base64(struct fg_json_writer *json, const char *key, struct fg_slice bytes);

#endif
