/*
 * `flamegrid upgrade-check [settings]`: which formats are in the bucket of a server with these
 * settings, whether this program reads them, and whether the version before it would.
 *
 * Versions are those that the objects themselves have: segments and blocks at their end
 * (common/storage/block/README.md#format-version-3), where readers begin, ring and manifests after
 * their magic (common/base/envelope.h). Whether this program reads a manifest or the ring, its own
 * decoder says.
 */
#include "common/base/envelope.h"
#include "common/storage/block/format.h"
#include "deploy/cli/args.h"
#include "deploy/cli/bucket_survey.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"
#include "deploy/single/server.h"

#include <string.h>

enum {
    /* A new version of blocks is written only once all programs read it, so the version before this
     * program's reads one less. */
    BLOCK_VERSION_BEFORE = FG_BLOCK_VERSION - 1,
    BLOCK_END_BYTES = 2 + 2 + 4 + 4, /* le16 version, le16 0, CRC, magic */
    BLOCK_MAGIC_AT = BLOCK_END_BYTES - 4,
    ENVELOPE_HEAD_BYTES = FG_ENVELOPE_MAGIC_BYTES + 1,
    VERSIONS_MAX = 16, /* different ones of one part that are told apart */
    READS_MAX = 64,    /* under way at once */
    CLI_NO_WAY_BACK = 3,
};

static const int64_t TIMEOUT_NS = FG_MINUTE_NS; /* of one request */

struct version_count {
    unsigned version;
    uint64_t objects;
};

/* The versions found among objects of one kind. */
struct part {
    const char *name;
    struct version_count counts[VERSIONS_MAX];
    size_t n_counts;
    uint64_t objects;
    uint64_t newer;      /* that this program does not read */
    uint64_t damaged;    /* whose version cannot be told, or whose content is damaged */
    uint64_t not_before; /* that this program reads and the version before it does not */
};

enum part_kind { PART_RING, PART_L0, PART_MANIFESTS, PART_SEGMENTS, PART_BLOCKS, PARTS };

struct check_command {
    bool json;
    struct part parts[PARTS];
    struct fg_err err;
};

static const char about[] = "Says which versions of formats are in a bucket, and whether this "
                            "program reads them (may I go\n"
                            "on?) and the version before it does (may I go back?).\n";

static const char notes[] =
    "Works on the bucket that a server with the same settings has: --config FILE, --data DIR,\n"
    "--bucket.type s3 and so on, or FG_... in the environment. Before an update, run the new\n"
    "version's command: it says whether the new programs read all that is there. Before you go\n"
    "back, run that of the version that is in use. It changes nothing.\n"
    "\n"
    "exit code: 0 this version and the one before read everything; 1 this version does not read\n"
    "everything; 2 it could not be checked; 3 this version reads everything, the one before does\n"
    "not\n"
    "\n"
    "examples:\n"
    "  flamegrid upgrade-check --config flamegrid.yaml\n"
    "  flamegrid upgrade-check --data /var/lib/flamegrid/data --json\n";

/* ---- counting ---- */

static void count_version(struct part *part, unsigned version)
{
    size_t i = 0;

    while (i < part->n_counts && part->counts[i].version != version)
        i++;
    if (i == part->n_counts) {
        /* Further ones count in the last row: nothing writes as many. */
        if (i == VERSIONS_MAX)
            i--;
        else
            part->counts[part->n_counts++].version = version;
    }
    part->counts[i].objects++;
}

/* Counts the ring or a manifest, which was read and decoded. A missing one is none. */
static void count_object(struct part *part, const struct cli_survey_object *object)
{
    if (object->code == FG_E_NOT_FOUND)
        return;
    part->objects++;
    if (object->code == FG_OK || object->code == FG_E_UNIMPLEMENTED) {
        fg_assert(object->bytes.len >= ENVELOPE_HEAD_BYTES); /* or it were damaged */
        count_version(part, object->bytes.ptr[FG_ENVELOPE_MAGIC_BYTES]);
        part->newer += object->code == FG_E_UNIMPLEMENTED;
    } else {
        part->damaged++;
    }
}

/* Counts a segment or block by its last bytes. */
static void count_end(struct part *part, struct fg_slice end)
{
    unsigned version;

    part->objects++;
    if (end.len != BLOCK_END_BYTES ||
        memcmp(end.ptr + BLOCK_MAGIC_AT, FG_BLOCK_MAGIC, sizeof FG_BLOCK_MAGIC - 1) != 0) {
        part->damaged++;
        return;
    }
    version = (unsigned)(end.ptr[0] | end.ptr[1] << 8);
    count_version(part, version);
    if (version < FG_BLOCK_VERSION_LEAST || version > FG_BLOCK_VERSION)
        part->newer++;
    else if (version > BLOCK_VERSION_BEFORE)
        part->not_before++;
}

/* ---- reading ---- */

/* The read of an object's last bytes. */
struct end {
    struct fg_bucket_request request;
    char name[FG_NAME_MAX_BYTES];
};

static enum fg_code name_of(const struct fg_name *name, char out[FG_NAME_MAX_BYTES],
                            struct fg_err *err)
{
    if (name->kind == FG_NAME_IS_BLOCK)
        return fg_name_block(out, fg_cstr(name->tenant), name->block, err);
    fg_name_segment(out, &name->segment);
    return FG_OK;
}

/* Sends the reads of up to READS_MAX entries. */
static enum fg_code send_reads(struct fg_bucket *bucket, struct fg_bucket_wave *wave,
                               const struct cli_survey_entry *entries, size_t n, struct end *ends,
                               struct part *part, struct fg_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (entries[i].bytes < BLOCK_END_BYTES) {
            count_end(part, (struct fg_slice){0});
            continue;
        }
        if (name_of(&entries[i].name, ends[i].name, err) != FG_OK)
            return err->code;
        ends[i].request = (struct fg_bucket_request){.verb = FG_BUCKET_GET,
                                                     .name = ends[i].name,
                                                     .offset = entries[i].bytes - BLOCK_END_BYTES,
                                                     .length = BLOCK_END_BYTES,
                                                     .content_max_bytes = BLOCK_END_BYTES,
                                                     .deadline_mono_ns =
                                                         fg_mono_ns(fg_clock_real()) + TIMEOUT_NS};
        fg_bucket_wave_send(wave, bucket, &ends[i].request);
    }
    return FG_OK;
}

/* Counts what was read, and clears all requests. An object that is gone was merged or has expired
 * meanwhile. */
static enum fg_code take_reads(struct fg_bucket_wave *wave, struct part *part, struct fg_err *err)
{
    struct fg_bucket_request *request;
    enum fg_code code = FG_OK;

    while ((request = fg_bucket_wave_next(wave)) != NULL) {
        if (request->code == FG_OK) {
            count_end(part, fg_buf_slice(&request->body));
        } else if (request->code != FG_E_NOT_FOUND) {
            *err = request->err;
            code = err->code;
        }
        fg_bucket_clear(request);
    }
    return code;
}

static enum fg_code read_ends(struct fg_bucket *bucket, const struct cli_survey_entry *entries,
                              size_t n, struct part *part, struct fg_err *err)
{
    struct end *ends = fg_calloc(READS_MAX, sizeof *ends);
    enum fg_code code = FG_OK;

    for (size_t at = 0; at < n && code == FG_OK; at += READS_MAX) {
        struct fg_bucket_wave *wave = fg_bucket_wave_create();
        struct fg_err taken_err;

        code = send_reads(bucket, wave, entries + at, FG_MIN(n - at, READS_MAX), ends, part, err);
        if (take_reads(wave, part, &taken_err) != FG_OK && code == FG_OK) {
            *err = taken_err;
            code = err->code;
        }
        fg_bucket_wave_destroy(wave);
    }
    free(ends);
    return code;
}

static enum fg_code count_versions(struct fg_bucket *bucket, struct check_command *command)
{
    struct part *parts = command->parts;
    struct cli_survey survey;
    enum fg_code code = cli_survey_read(bucket, &survey, &command->err);

    if (code == FG_OK) {
        count_object(&parts[PART_RING], &survey.ring_object);
        count_object(&parts[PART_L0], &survey.l0);
        for (size_t i = 0; i < survey.n_tenants; i++)
            count_object(&parts[PART_MANIFESTS], &survey.tenants[i].manifest);
        code = read_ends(bucket, survey.segments, survey.n_segments, &parts[PART_SEGMENTS],
                         &command->err);
    }
    if (code == FG_OK)
        code =
            read_ends(bucket, survey.blocks, survey.n_blocks, &parts[PART_BLOCKS], &command->err);
    cli_survey_done(&survey);
    return code;
}

/* ---- the answer ---- */

static bool reads_all(const struct part *part)
{
    return part->newer == 0 && part->damaged == 0;
}

static void print_text(const struct check_command *command)
{
    printf("%-10s %9s  %-24s %-4s  %s\n", "part", "objects", "versions", "on", "back");
    for (size_t i = 0; i < PARTS; i++) {
        const struct part *part = &command->parts[i];
        char versions[200] = "-";
        int used = 0;

        for (size_t j = 0; j < part->n_counts && used < (int)sizeof versions - 40; j++)
            used += snprintf(versions + used, sizeof versions - (size_t)used, "%s%u: %llu",
                             j > 0 ? ", " : "", part->counts[j].version,
                             (unsigned long long)part->counts[j].objects);
        printf("%-10s %9llu  %-24s %-4s  %s\n", part->name, (unsigned long long)part->objects,
               versions, reads_all(part) ? "yes" : "no",
               reads_all(part) && part->not_before == 0 ? "yes" : "no");
        if (part->newer > 0)
            printf("  %llu of a version that this program does not read: update it\n",
                   (unsigned long long)part->newer);
        if (part->damaged > 0)
            printf("  %llu damaged: flamegrid bucket verify\n", (unsigned long long)part->damaged);
        if (part->not_before > 0)
            printf("  %llu that the version before this one does not read: set block_version: "
                   "\"%d\", and wait until compaction has rewritten them\n",
                   (unsigned long long)part->not_before, BLOCK_VERSION_BEFORE);
    }
}

static json_t *part_json(const struct check_command *command, const struct part *part)
{
    json_t *versions = json_array();
    json_t *json;

    for (size_t i = 0; i < part->n_counts; i++)
        (void)json_array_append_new(versions,
                                    json_pack("{s:i,s:o}", "version", (int)part->counts[i].version,
                                              "objects", cli_json_u64(part->counts[i].objects)));
    json = json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:b,s:b}", "part", part->name, "objects",
                     cli_json_u64(part->objects), "versions", versions, "unknown",
                     cli_json_u64(part->newer), "damaged", cli_json_u64(part->damaged),
                     "not_before", cli_json_u64(part->not_before), "on", reads_all(part), "back",
                     reads_all(part) && part->not_before == 0);
    if (part == &command->parts[PART_SEGMENTS] || part == &command->parts[PART_BLOCKS])
        (void)json_object_update_new(
            json, json_pack("{s:[i,i],s:i}", "reads", (int)FG_BLOCK_VERSION_LEAST,
                            (int)FG_BLOCK_VERSION, "reads_before", (int)BLOCK_VERSION_BEFORE));
    return json;
}

/* Prints the answer; returns the exit code. */
static int answer(struct check_command *command)
{
    bool on = true, back = true;
    json_t *parts;

    for (size_t i = 0; i < PARTS; i++) {
        on = on && reads_all(&command->parts[i]);
        back = back && command->parts[i].not_before == 0;
    }
    back = back && on;
    if (command->json) {
        parts = json_array();
        for (size_t i = 0; i < PARTS; i++)
            (void)json_array_append_new(parts, part_json(command, &command->parts[i]));
        if (cli_json_print(json_pack("{s:b,s:b,s:o}", "on", on, "back", back, "parts", parts),
                           stdout, &command->err) != FG_OK) {
            fprintf(stderr, "flamegrid upgrade-check: %s\n", command->err.msg);
            return CLI_UNKNOWN;
        }
    } else {
        print_text(command);
    }
    if (!on)
        return CLI_FAILED;
    return back ? CLI_OK : CLI_NO_WAY_BACK;
}

static int run(struct check_command *command)
{
    struct fg_bucket *bucket = NULL;
    enum fg_code code = single_open_bucket(&bucket, &command->err);

    if (code == FG_OK)
        code = count_versions(bucket, command);
    fg_bucket_close(bucket);
    if (code == FG_OK)
        return answer(command);
    fprintf(stderr, "flamegrid upgrade-check: %s\n", command->err.msg);
    return CLI_UNKNOWN;
}

static int with_def(const struct fg_program_def *def, int argc, char **argv)
{
    struct check_command command = {.parts = {[PART_RING] = {.name = "ring"},
                                              [PART_L0] = {.name = "l0"},
                                              [PART_MANIFESTS] = {.name = "manifests"},
                                              [PART_SEGMENTS] = {.name = "segments"},
                                              [PART_BLOCKS] = {.name = "blocks"}}};
    const struct cli_args_option options[] = {
        {"json", 0, ARGS_FLAG, &command.json, NULL, "print one JSON document", 0, 0},
    };
    const struct cli_args_command args = {"upgrade-check", "[--json] [settings]", about, notes,
                                          options,         FG_COUNT(options),     NULL};
    struct fg_program program;
    int words, n_settings, code;

    if (cli_args_wants_help(&args, argc, argv))
        return CLI_OK;
    if (cli_args_split(&args, argc, argv, &words, &n_settings, &command.err) != FG_OK)
        return cli_args_refuse(&args, &command.err);
    if (words > 0) {
        (void)fg_fail(&command.err, FG_E_INVALID, "unexpected word \"%.100s\"", argv[0]);
        return cli_args_refuse(&args, &command.err);
    }
    if (fg_program_configure(def, n_settings, argv, &program, &command.err) != FG_OK)
        code = cli_args_refuse(&args, &command.err);
    else
        code = run(&command);
    fg_program_forget(&program);
    return code;
}

int cli_upgrade_check(int argc, char **argv)
{
    return single_with_def(with_def, argc, argv);
}
