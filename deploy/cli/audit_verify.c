#include "deploy/cli/audit_verify.h"

#include "common/access/audit/audit_search.h"
#include "common/base/str.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/times.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static const int64_t TIMEOUT_NS = FG_MINUTE_NS; /* of one request */

struct audit_object {
    struct fg_audit_name name;
    char *text; /* of the name */
};

struct verifying {
    struct fg_bucket *bucket;
    FILE *out;
    bool json;
    json_t *faults;
    struct audit_object *objects;
    size_t n_objects, cap_objects;
    struct fg_audit_chain *chains;
    size_t n_chains, cap_chains;
    uint64_t n_faults;
};

static void on_fault(void *arg, const char *chain, const char *sentence)
{
    struct verifying *verifying = arg;

    verifying->n_faults++;
    if (verifying->json)
        (void)json_array_append_new(verifying->faults,
                                    json_pack("{s:o,s:o}", "chain", cli_json_text(fg_cstr(chain)),
                                              "fault", cli_json_text(fg_cstr(sentence))));
    else
        (void)fprintf(verifying->out, "FAULT  %s: %s\n", chain, sentence);
}

/* ---- chains ---- */

static struct fg_audit_chain *find_chain(struct verifying *verifying, const char *id)
{
    for (size_t i = 0; i < verifying->n_chains; i++)
        if (strcmp(verifying->chains[i].head.chain, id) == 0)
            return &verifying->chains[i];
    return NULL;
}

static struct fg_audit_chain *add_chain(struct verifying *verifying, const char *id)
{
    struct fg_audit_chain *chain;

    if (verifying->n_chains == verifying->cap_chains) {
        verifying->cap_chains = FG_MAX(2 * verifying->cap_chains, (size_t)16);
        verifying->chains =
            fg_realloc(verifying->chains, verifying->cap_chains * sizeof *verifying->chains);
    }
    chain = &verifying->chains[verifying->n_chains++];
    *chain = (struct fg_audit_chain){.records = 0};
    (void)snprintf(chain->head.chain, sizeof chain->head.chain, "%s", id);
    return chain;
}

/* ---- heads that were known ---- */

static bool read_known(struct verifying *verifying, const json_t *item)
{
    const char *id = json_string_value(json_object_get(item, "chain"));
    const char *hash = json_string_value(json_object_get(item, "hash"));
    const json_t *seq = json_object_get(item, "seq");
    struct fg_audit_chain *chain;

    /* One bad item spoils the file: a head that was left out would not be looked for. */
    if (id == NULL || strlen(id) > FG_AUDIT_CHAIN_MAX_BYTES || id[0] == '\0' || hash == NULL ||
        !json_is_integer(seq) || json_integer_value(seq) < 0 || find_chain(verifying, id) != NULL)
        return false;
    chain = add_chain(verifying, id);
    chain->known.seq = (uint64_t)json_integer_value(seq);
    chain->known.object_ms = json_integer_value(json_object_get(item, "object_ms"));
    (void)snprintf(chain->known.chain, sizeof chain->known.chain, "%s", id);
    return fg_parse_hex(fg_cstr(hash), chain->known.hash, FG_AUDIT_HASH_BYTES);
}

static enum fg_code load_known(struct verifying *verifying, const char *path, struct fg_err *err)
{
    json_error_t fault;
    json_t *document = json_load_file(path, 0, &fault);
    const json_t *chains = json_object_get(document, "chains"), *item;
    bool good = json_is_array(chains);
    size_t i;

    if (document == NULL && json_error_code(&fault) == json_error_cannot_open_file)
        return fg_fail(err, FG_E_INVALID, "--known: %s; the first run goes without it, with --json",
                       fault.text);
    if (document == NULL)
        return fg_fail(err, FG_E_INVALID, "--known %s: %s", path, fault.text);
    json_array_foreach(chains, i, item) good = good && read_known(verifying, item);
    json_decref(document);
    return good ? FG_OK
                : fg_fail(err, FG_E_INVALID, "%s is not what flamegrid audit verify --json prints",
                          path);
}

/* ---- objects ---- */

static bool take_name(const struct fg_bucket_entry *entry, void *arg)
{
    struct verifying *verifying = arg;
    struct audit_object *object;

    if (verifying->n_objects == verifying->cap_objects) {
        verifying->cap_objects = FG_MAX(2 * verifying->cap_objects, (size_t)1024);
        verifying->objects =
            fg_realloc(verifying->objects, verifying->cap_objects * sizeof *verifying->objects);
    }
    object = &verifying->objects[verifying->n_objects];
    if (!fg_audit_read_name(fg_cstr(entry->name), &object->name)) {
        on_fault(verifying, "-", entry->name); /* nobody else writes below audit/ */
        return true;
    }
    object->text = fg_strdup(entry->name);
    verifying->n_objects++;
    return true;
}

/* The list comes by hours, in which chains are mixed. Of two objects with one number both are
 * looked at: the second one is a fault. */
static int compare_objects(const void *a, const void *b)
{
    const struct audit_object *left = a, *right = b;
    int order = strcmp(left->name.chain, right->name.chain);

    if (order != 0)
        return order;
    if (left->name.object != right->name.object)
        return left->name.object < right->name.object ? -1 : 1;
    return strcmp(left->text, right->text);
}

static enum fg_code check_object(struct verifying *verifying, struct fg_audit_chain *chain,
                                 const struct audit_object *object, struct fg_err *err)
{
    struct fg_buf lines;
    enum fg_code code;

    fg_buf_init(&lines, FG_AUDIT_OBJECT_MAX_BYTES);
    code = fg_audit_read_object(verifying->bucket, object->text,
                                fg_mono_ns(fg_clock_real()) + TIMEOUT_NS, &lines, err);
    if (code == FG_OK) {
        fg_audit_check_object(chain, &object->name, fg_buf_slice(&lines), on_fault, verifying);
    } else if (code == FG_E_CORRUPT || code == FG_E_NOT_FOUND) {
        /* Retention may have deleted it since the list; the links tell. */
        if (code == FG_E_CORRUPT)
            fg_audit_check_unreadable(chain, &object->name, err->msg, on_fault, verifying);
        code = FG_OK;
    }
    fg_buf_done(&lines);
    return code;
}

static enum fg_code check_all(struct verifying *verifying, struct fg_err *err)
{
    struct fg_audit_chain *chain = NULL;

    for (size_t i = 0; i < verifying->n_objects; i++) {
        const struct audit_object *object = &verifying->objects[i];

        if (chain == NULL || strcmp(chain->head.chain, object->name.chain) != 0) {
            chain = find_chain(verifying, object->name.chain);
            if (chain == NULL)
                chain = add_chain(verifying, object->name.chain);
        }
        /* An object that the bucket does not deliver is neither good nor a fault: there is no
         * verdict. */
        if (check_object(verifying, chain, object, err) != FG_OK)
            return err->code;
    }
    fg_audit_check_links(verifying->chains, verifying->n_chains, on_fault, verifying);
    return FG_OK;
}

/* ---- the report ---- */

static bool is_continued(const struct verifying *verifying, const char *id)
{
    for (size_t i = 0; i < verifying->n_chains; i++)
        if (strcmp(verifying->chains[i].continues.chain, id) == 0)
            return true;
    return false;
}

/* What vouches for the end of a chain. */
static const char *state_of(const struct verifying *verifying, const struct fg_audit_chain *chain)
{
    if (!chain->begun)
        return "missing";
    if (chain->ended)
        return "ended";
    return is_continued(verifying, chain->head.chain) ? "continued" : "open";
}

static void print_chain(const struct verifying *verifying, const struct fg_audit_chain *chain)
{
    char begin[CLI_TIME_TEXT_BYTES], last[CLI_TIME_TEXT_BYTES];

    if (!chain->begun)
        return;
    cli_time_write(chain->begin_ms * FG_MS_NS, begin);
    cli_time_write(chain->last_ms * FG_MS_NS, last);
    (void)fprintf(verifying->out, "%s  %s to %s  objects %llu to %llu  %llu records  %s%s\n",
                  chain->head.chain, begin, last, (unsigned long long)chain->first_object,
                  (unsigned long long)chain->next_object - 1, (unsigned long long)chain->records,
                  state_of(verifying, chain), chain->faults > 0 ? "  FAULTY" : "");
}

static json_t *json_of(const struct verifying *verifying, const struct fg_audit_chain *chain)
{
    char hash[2 * FG_AUDIT_HASH_BYTES + 1];

    for (size_t i = 0; i < FG_AUDIT_HASH_BYTES; i++)
        (void)snprintf(hash + 2 * i, 3, "%02x", chain->head.hash[i]);
    return json_pack("{s:s,s:o,s:s,s:I,s:o,s:o,s:o,s:s,s:o}", "chain", chain->head.chain, "seq",
                     cli_json_u64(chain->head.seq), "hash", hash, "object_ms",
                     (json_int_t)chain->head.object_ms, "records", cli_json_u64(chain->records),
                     "begin", cli_json_time(chain->begin_ms * FG_MS_NS), "end",
                     cli_json_time(chain->last_ms * FG_MS_NS), "state", state_of(verifying, chain),
                     "faults", cli_json_u64(chain->faults));
}

static enum fg_code report(struct verifying *verifying, struct fg_err *err)
{
    json_t *chains = json_array(), *document;

    for (size_t i = 0; i < verifying->n_chains; i++)
        if (!verifying->json)
            print_chain(verifying, &verifying->chains[i]);
        /* A chain without objects has no head that the next run could compare. */
        else if (verifying->chains[i].begun)
            (void)json_array_append_new(chains, json_of(verifying, &verifying->chains[i]));
    document = json_pack("{s:b,s:o,s:O}", "ok", verifying->n_faults == 0, "chains", chains,
                         "faults", verifying->faults);
    if (verifying->json)
        return cli_json_print(document, verifying->out, err);
    json_decref(document);
    if (verifying->n_faults == 0)
        (void)fprintf(verifying->out, "%zu chains, %zu objects: no faults\n", verifying->n_chains,
                      verifying->n_objects);
    return FG_OK;
}

enum fg_code cli_audit_verify(struct fg_bucket *bucket, const char *known, bool json, FILE *out,
                              struct fg_err *err)
{
    struct verifying verifying = {
        .bucket = bucket, .out = out, .json = json, .faults = json_array()};
    enum fg_code code = known == NULL ? FG_OK : load_known(&verifying, known, err);

    if (code == FG_OK)
        code = fg_bucket_each(bucket, FG_AUDIT_PREFIX, false,
                              fg_mono_ns(fg_clock_real()) + 10 * TIMEOUT_NS, take_name, &verifying,
                              err);
    if (verifying.n_objects > 1)
        qsort(verifying.objects, verifying.n_objects, sizeof *verifying.objects, compare_objects);
    if (code == FG_OK)
        code = check_all(&verifying, err);
    if (code == FG_OK)
        code = report(&verifying, err);
    if (code == FG_OK && verifying.n_faults > 0)
        code = fg_fail(err, FG_E_CORRUPT, "the audit has %llu faults",
                       (unsigned long long)verifying.n_faults);
    for (size_t i = 0; i < verifying.n_objects; i++)
        free(verifying.objects[i].text);
    free(verifying.objects);
    free(verifying.chains);
    json_decref(verifying.faults);
    return code;
}
