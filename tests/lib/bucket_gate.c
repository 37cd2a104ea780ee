#include "tests/lib/bucket_gate.h"

#include <string.h>

/* Locked. */
static bool is_shut_for(const struct bucket_gate *gate, const struct fg_bucket_request *request)
{
    return gate->closed && request->verb == gate->verb &&
           strncmp(request->name, gate->prefix, strlen(gate->prefix)) == 0;
}

static void gate_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct bucket_gate *gate = fg_container(bucket, struct bucket_gate, bucket);

    (void)pthread_mutex_lock(&gate->lock);
    if (is_shut_for(gate, request)) {
        gate->waiting++;
        (void)pthread_cond_broadcast(&gate->moved);
        while (is_shut_for(gate, request))
            (void)pthread_cond_wait(&gate->moved, &gate->lock);
        gate->waiting--;
    }
    (void)pthread_mutex_unlock(&gate->lock);
    gate->inner->ops->send(gate->inner, request);
}

static void gate_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct bucket_gate *gate = fg_container(bucket, struct bucket_gate, bucket);

    gate->inner->ops->cancel(gate->inner, request);
}

static void gate_close(struct fg_bucket *bucket)
{
    (void)bucket;
}

void bucket_gate_init(struct bucket_gate *gate, struct fg_bucket *inner)
{
    static const struct fg_bucket_ops ops = {gate_send, gate_cancel, gate_close};

    *gate = (struct bucket_gate){.bucket = {.ops = &ops, .wraps = inner}, .inner = inner};
    (void)pthread_mutex_init(&gate->lock, NULL);
    (void)pthread_cond_init(&gate->moved, NULL);
}

void bucket_gate_done(struct bucket_gate *gate)
{
    (void)pthread_cond_destroy(&gate->moved);
    (void)pthread_mutex_destroy(&gate->lock);
}

void bucket_gate_shut(struct bucket_gate *gate, enum fg_bucket_verb verb, const char *prefix)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->verb = verb;
    gate->prefix = prefix;
    gate->closed = true;
    (void)pthread_mutex_unlock(&gate->lock);
}

void bucket_gate_await(struct bucket_gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    while (gate->waiting == 0)
        (void)pthread_cond_wait(&gate->moved, &gate->lock);
    (void)pthread_mutex_unlock(&gate->lock);
}

void bucket_gate_open(struct bucket_gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->closed = false;
    (void)pthread_cond_broadcast(&gate->moved);
    (void)pthread_mutex_unlock(&gate->lock);
}
