#include "distributor/delivery/encoded_batch.h"

static void keep_defined(struct dist_encoded_batch *encoded, const struct fg_batch *batch,
                         const bool *define)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < batch->n_stacks; i++)
        n += define[i];
    /* The steady state: nothing is defined, so that the cache learns nothing from the answer. */
    if (n == 0)
        return;
    encoded->defined = fg_calloc(n, sizeof *encoded->defined);
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        if (define[i])
            encoded->defined[encoded->n_defined++] = batch->stacks[i].id;
    encoded->bytes += n * sizeof *encoded->defined;
}

static char *put_text(char *out, struct fg_slice text)
{
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return out + text.len + 1;
}

struct dist_encoded_batch *dist_encoded_batch_create(struct fg_slice tenant,
                                                     struct fg_slice service, struct fg_slice via,
                                                     const struct fg_batch *batch,
                                                     const bool *define, struct fg_slice bytes)
{
    /* One allocation for the struct and its parts: an upload may have thousands of batches.
     */
    size_t size = tenant.len + 1 + service.len + 1 + bytes.len + via.len;
    struct dist_encoded_batch *encoded = fg_malloc(sizeof *encoded + size);
    char *rest;

    *encoded = (struct dist_encoded_batch){.refs = 1, .bytes = sizeof *encoded + size};
    encoded->service = put_text(encoded->tenant, tenant);
    rest = put_text(encoded->service, service);
    memcpy(rest, bytes.ptr, bytes.len);
    encoded->batch = fg_bytes(rest, bytes.len);
    if (via.len > 0)
        memcpy(rest + bytes.len, via.ptr, via.len);
    encoded->via = fg_bytes(rest + bytes.len, via.len);
    keep_defined(encoded, batch, define);
    encoded->n_sizes = 2 * (size_t)batch->n_profiles;
    encoded->sizes = fg_calloc(encoded->n_sizes, sizeof *encoded->sizes);
    fg_batch_put_sizes(batch, encoded->sizes);
    encoded->bytes += encoded->n_sizes * sizeof *encoded->sizes;
    return encoded;
}

struct dist_encoded_batch *dist_encoded_batch_ref(struct dist_encoded_batch *encoded)
{
    (void)atomic_fetch_add(&encoded->refs, 1);
    return encoded;
}

void dist_encoded_batch_unref(struct dist_encoded_batch *encoded)
{
    if (encoded == NULL || atomic_fetch_sub(&encoded->refs, 1) != 1)
        return;
    free(encoded->defined);
    free(encoded->sizes);
    free(encoded);
}
