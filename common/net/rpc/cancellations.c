#include "common/net/rpc/cancellations.h"

#include <pthread.h>

/* At a hundred cancellations a second they last for seconds, and a lost one costs only work. */
enum { CANCELLATIONS_PAST = 1024 };

struct past_cancellation {
    uint64_t key; /* 0: none */
    uint32_t owner;
};

struct fg_cancellations {
    pthread_mutex_t lock; /* of everything below, and of the list's fields of requests */
    struct fg_rpc_request *first;
    struct past_cancellation past[CANCELLATIONS_PAST];
    unsigned next; /* of past, which is overwritten in turn */
};

struct fg_cancellations *fg_cancellations_create(void)
{
    struct fg_cancellations *cancellations = fg_new(struct fg_cancellations);

    (void)pthread_mutex_init(&cancellations->lock, NULL);
    return cancellations;
}

void fg_cancellations_destroy(struct fg_cancellations *cancellations)
{
    if (cancellations == NULL)
        return;
    fg_assert(cancellations->first == NULL);
    (void)pthread_mutex_destroy(&cancellations->lock);
    free(cancellations);
}

/* Locked. */
static bool was_canceled(struct fg_cancellations *cancellations, uint32_t owner, uint64_t key)
{
    for (unsigned i = 0; i < CANCELLATIONS_PAST; i++) {
        struct past_cancellation *past = &cancellations->past[i];

        if (past->key != key || past->owner != owner)
            continue;
        *past = (struct past_cancellation){.key = 0};
        return true;
    }
    return false;
}

void fg_cancellations_add(struct fg_cancellations *cancellations, struct fg_rpc_request *req,
                          uint64_t key)
{
    fg_assert(key != 0);
    if (req->cancel_key != 0)
        return;
    (void)pthread_mutex_lock(&cancellations->lock);
    req->cancel_key = key;
    req->next = cancellations->first;
    req->at = &cancellations->first;
    if (req->next != NULL)
        req->next->at = &req->next;
    cancellations->first = req;
    if (was_canceled(cancellations, req->owner, key))
        atomic_store(&req->canceled, true);
    (void)pthread_mutex_unlock(&cancellations->lock);
}

void fg_cancellations_remove(struct fg_cancellations *cancellations, struct fg_rpc_request *req)
{
    if (req->cancel_key == 0)
        return;
    (void)pthread_mutex_lock(&cancellations->lock);
    *req->at = req->next;
    if (req->next != NULL)
        req->next->at = req->at;
    (void)pthread_mutex_unlock(&cancellations->lock);
    /* Nobody else finds it any more. */
    req->cancel_key = 0;
    atomic_store(&req->canceled, false);
}

void fg_cancellations_cancel(struct fg_cancellations *cancellations, uint32_t owner, uint64_t key)
{
    struct fg_rpc_request *req;

    if (key == 0)
        return;
    (void)pthread_mutex_lock(&cancellations->lock);
    for (req = cancellations->first; req != NULL; req = req->next)
        if (req->cancel_key == key && req->owner == owner)
            break;
    if (req != NULL) {
        atomic_store(&req->canceled, true);
    } else {
        cancellations->past[cancellations->next] = (struct past_cancellation){key, owner};
        cancellations->next = (cancellations->next + 1) % CANCELLATIONS_PAST;
    }
    (void)pthread_mutex_unlock(&cancellations->lock);
}
