/*
 * Made-up profiles of some tenants and services, written into blocks and segments by the real
 * writer, and looked for in such: each exactly once, equal to the last value. The slow, obvious
 * form: a profile is kept as paths of names.
 *
 * Everything is drawn from the seed. Each object has its own numbering of stacks and symbols.
 */
#ifndef FG_TESTS_LIB_MADE_H
#define FG_TESTS_LIB_MADE_H

#include "common/storage/block/writer.h"

enum { MADE_TENANTS = 2, MADE_SERVICES = 3, MADE_INSTANCES = 3, MADE_SAMPLES_MAX = 12 };

struct made_profile {
    uint32_t tenant, service, instance, schema; /* schema 0: CPU, two types; 1: heap, four */
    struct fg_id id;
    int64_t time_ns, duration_ns;
    uint16_t shard;
    uint32_t n_samples, n_links;
    uint32_t stacks[MADE_SAMPLES_MAX]; /* of the service's tree: 0, or node + 1; each once */
    uint64_t values[4][MADE_SAMPLES_MAX];
    uint64_t spans[MADE_SAMPLES_MAX]; /* links: of the first n_links samples */
};

/* What its sender sent, of one in four unknown; follows from its id. */
struct fg_profile_size made_size(const struct made_profile *profile);

const char *made_tenant(uint32_t tenant);   /* "acme", ... */
const char *made_service(uint32_t service); /* "shop", ... */

/* Profile number k of the seed, at that time. */
struct made_profile made_draw(uint64_t seed, uint64_t k, int64_t time_ns);

/* An object of these, in any order, of all tenants among them; out is empty before. */
struct fg_block_summary made_write(const struct made_profile *profiles, size_t n, uint32_t level,
                                   uint64_t numbering, struct fg_buf *out);

/* What was found in objects. */
struct made_found {
    struct fg_id *ids;
    uint64_t *hashes; /* of all there is to a profile */
    size_t n, cap;
};
void made_found_done(struct made_found *found);

/* Adds all profiles of a tenant in the object. Fails the test on any error. */
void made_read(struct fg_slice object, const struct fg_keys *keys, const char *tenant,
               struct made_found *found);

/* Asserts that these of the tenant were found, each once, and no others. */
void made_expect(const struct made_found *found, const struct made_profile *profiles, size_t n,
                 uint32_t tenant);

#endif
