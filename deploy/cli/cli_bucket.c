/* `flamegrid bucket VERB [NAME] [settings]`: works on the bucket of a server with these settings,
 * whether one runs or not. A verb is a row of the table at the end. */
#include "common/access/keys/key_store.h"
#include "common/base/str.h"
#include "deploy/cli/args.h"
#include "deploy/cli/bucket_export.h"
#include "deploy/cli/bucket_look.h"
#include "deploy/cli/bucket_quarantine.h"
#include "deploy/cli/bucket_rebuild.h"
#include "deploy/cli/bucket_repair.h"
#include "deploy/cli/bucket_verify.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/show.h"
#include "deploy/single/server.h"

#include <errno.h>

enum { CAT_STEP_BYTES = 8 * 1024 * 1024 }; /* in memory at a time: blocks may have gigabytes */

static const int64_t TIMEOUT_NS = 5 * FG_MINUTE_NS; /* of one request */

struct bucket_command {
    struct fg_bucket *bucket;
    const struct fg_encryption_settings *encryption;
    struct fg_key_store *keys; /* NULL: nothing is encrypted */
    const char *name;          /* or prefix */
    bool recursive;
    bool json;
    size_t n_entries;   /* of ls --json, so far */
    FILE *out;          /* standard output, or the report of a verb with --json */
    const char *tenant; /* rebuild tenant; "": none */
    struct cli_rebuild_options rebuild;
    struct fg_err err;
};

struct bucket_verb {
    struct cli_args_verb verb;
    enum fg_code (*run)(struct bucket_command *command);
    bool reports; /* writes lines of text, which --json makes an array of the document */
};

static const char about[] =
    "Works on the bucket that a server with the same settings has: --config FILE, --data DIR,\n"
    "--bucket.type s3 and so on, or FG_... in the environment.\n";

static const char notes[] =
    "deploy/README.md lists the keys of --json.\n"
    "\n"
    "examples:\n"
    "  flamegrid bucket ls --data /var/lib/flamegrid\n"
    "  flamegrid bucket ls segments/ -r --config flamegrid.yaml\n"
    "  flamegrid bucket inspect manifests/l0\n"
    "  flamegrid bucket verify\n"
    "  flamegrid bucket rebuild l0\n"
    "  flamegrid bucket rebuild tenant acme --apply\n"
    "  flamegrid bucket repair tenants/acme/blocks/18ea7cdf8a0c6c8003ad349947090480\n";

static int64_t deadline(void)
{
    return fg_mono_ns(fg_clock_real()) + TIMEOUT_NS;
}

/* ---- ls ---- */

static bool print_entry_json(const struct fg_bucket_entry *entry, struct bucket_command *command)
{
    json_t *json = json_pack("{s:o}", "name", cli_json_text(fg_cstr(entry->name)));

    if (entry->folder) {
        (void)json_object_set_new(json, "folder", json_true());
    } else {
        (void)json_object_set_new(json, "size_bytes", cli_json_u64(entry->size_bytes));
        (void)json_object_set_new(json, "modified", cli_json_time(entry->modified_wall_ns));
    }
    (void)fputs(command->n_entries++ == 0 ? "[\n" : ",\n", stdout);
    (void)json_dumpf(json, stdout, JSON_COMPACT);
    json_decref(json);
    return ferror(stdout) == 0;
}

static bool print_entry(const struct fg_bucket_entry *entry, void *arg)
{
    time_t seconds = (time_t)(entry->modified_wall_ns / FG_SECOND_NS);
    char date[32] = "", size[32] = "";
    struct bucket_command *command = arg;
    struct fg_buf line;
    struct tm parts;

    if (command->json)
        return print_entry_json(entry, command);
    if (!entry->folder && gmtime_r(&seconds, &parts) != NULL) {
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
        (void)snprintf(size, sizeof size, "%llu", (unsigned long long)entry->size_bytes);
    }
    fg_buf_init(&line, SIZE_MAX);
    fg_buf_printf(&line, "%12s  %20s  ", size, date);
    cli_show_text(fg_cstr(entry->name), &line);
    fg_buf_putc(&line, '\n');
    (void)fwrite(line.ptr, 1, line.len, stdout);
    fg_buf_done(&line);
    return ferror(stdout) == 0;
}

/* Lists objects. Prints each as it arrives, because a bucket may have millions. After a failure the
 * JSON array has no end, so that an incomplete list does not parse. */
static enum fg_code ls(struct bucket_command *command)
{
    enum fg_code code = fg_bucket_each(command->bucket, command->name, !command->recursive, 0,
                                       print_entry, command, &command->err);

    if (code == FG_OK && command->json)
        (void)fputs(command->n_entries == 0 ? "[]\n" : "\n]\n", stdout);
    return code;
}

/* ---- cat ---- */

/* Writes an object piece by piece. All pieces are of one version: the condition fails if the object
 * is replaced meanwhile. */
static enum fg_code cat(struct bucket_command *command)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = command->name,
                                    .length = CAT_STEP_BYTES,
                                    .content_max_bytes = CAT_STEP_BYTES};
    enum fg_code code;

    do {
        get.deadline_mono_ns = deadline();
        code = fg_bucket_call(command->bucket, &get);
        if (code != FG_OK)
            command->err = get.err;
        else if (fwrite(get.body.ptr, 1, get.body.len, stdout) != get.body.len)
            code = fg_fail_errno(&command->err, errno, "standard output");
        get.offset += get.body.len;
        /* From the second piece on: the first one decides about the version. */
        get.condition = FG_BUCKET_IF_MATCH;
        get.if_etag = get.etag;
    } while (code == FG_OK && get.body.len > 0 && get.offset < get.size_bytes);
    fg_bucket_clear(&get);
    return code;
}

/* ---- rm ---- */

/* Removes an object. Refuses an unknown name, most likely a typo, which a delete would ignore. */
static enum fg_code rm(struct bucket_command *command)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_HEAD, .name = command->name, .deadline_mono_ns = deadline()};

    /* A delete between the two requests is harmless: both end with the object gone. */
    if (fg_bucket_call(command->bucket, &request) == FG_OK) {
        request.verb = FG_BUCKET_DELETE;
        (void)fg_bucket_call(command->bucket, &request);
    }
    if (request.code != FG_OK)
        command->err = request.err;
    else if (command->json)
        return cli_json_print(
            json_pack("{s:o,s:b}", "name", cli_json_text(fg_cstr(command->name)), "removed", 1),
            stdout, &command->err);
    return request.code;
}

/* ---- inspect and verify ---- */

static enum fg_code inspect(struct bucket_command *command)
{
    return cli_bucket_inspect(command->bucket, command->name, command->json, stdout, &command->err);
}

static enum fg_code verify(struct bucket_command *command)
{
    return command->json ? cli_bucket_verify_json(command->bucket, stdout, &command->err)
                         : cli_bucket_verify(command->bucket, stdout, &command->err);
}

/* ---- rebuild, repair and quarantine ---- */

static enum fg_code rebuild(struct bucket_command *command)
{
    const struct cli_rebuild_options *options = &command->rebuild;

    if (strcmp(command->name, "tenant") == 0) {
        if (fg_tenant_check(fg_cstr(command->tenant), &command->err) != FG_OK)
            return command->err.code;
        return cli_rebuild_tenant(command->bucket, fg_cstr(command->tenant), options, command->out,
                                  &command->err);
    }
    if (command->tenant[0] != '\0')
        return fg_fail(&command->err, FG_E_INVALID, "unexpected argument \"%.100s\"",
                       command->tenant);
    if (strcmp(command->name, "l0") == 0)
        return cli_rebuild_l0(command->bucket, options, command->out, &command->err);
    if (strcmp(command->name, "ring") == 0)
        return cli_rebuild_ring(command->bucket, options, command->out, &command->err);
    return fg_fail(&command->err, FG_E_INVALID, "\"%.100s\" is none of l0, ring and tenant",
                   command->name);
}

static enum fg_code repair(struct bucket_command *command)
{
    return cli_bucket_repair(command->bucket, command->name, command->rebuild.apply, command->out,
                             &command->err);
}

static enum fg_code quarantine(struct bucket_command *command)
{
    return cli_bucket_quarantine(command->bucket, command->name, command->rebuild.apply,
                                 command->out, &command->err);
}

/* ---- the command ---- */

static const struct bucket_verb verbs[] = {
    {{"ls", "[PREFIX]", 0, 1, "recursive json",
      "lists objects that begin with PREFIX: size, time, name; a folder, which ends with\n"
      "'/', is one line unless --recursive (-r) is given\n"},
     ls,
     false},
    {{"cat", "NAME", 1, 1, NULL, "writes an object to standard output\n"}, cat, false},
    {{"rm", "NAME", 1, 1, "json", "removes an object, even if a server needs it\n"}, rm, false},
    {{"inspect", "NAME", 1, 1, "json",
      "shows a manifest or the ring as JSON, or what a segment or block has\n"},
     inspect,
     false},
    {{"verify", NULL, 0, 0, "json",
      "compares the manifests, the ring and the list of objects with one another, and\n"
      "reads all live segments and blocks: every checksum, sum and digest, and whether\n"
      "each profile is there once. Prints one line for each fault, with its cure. Exit\n"
      "code 0: no fault, 1: there are some, 2: the bucket, or some of it, could not be\n"
      "checked\n"},
     verify,
     false},
    {{"rebuild", "l0|ring|tenant TENANT", 1, 2, "apply accept-loss generation json",
      "rebuilds the L0 manifest, the ring or a tenant's manifest from the other objects,\n"
      "and prints what it would write. --apply writes it, if the object did not change\n"
      "meanwhile, and keeps the old one below manifests/kept/\n"},
     rebuild,
     true},
    {{"repair", "OBJECT", 1, 1, "apply json",
      "saves the intact services of a damaged segment or block: writes them to new\n"
      "blocks, which take its place, and records what is lost, so that answers about\n"
      "these services and times say so. Prints what it would do; --apply does it, also\n"
      "while the cluster runs\n"},
     repair,
     true},
    {{"quarantine", "OBJECT", 1, 1, "apply json",
      "gives up one damaged or missing segment or block: removes it from all manifests,\n"
      "copies its bytes below quarantine/, and makes answers about its time say what they\n"
      "lack. Prints what it would do; --apply does it\n"},
     quarantine,
     true},
    /* cli_bucket_export(), which has options of its own. */
    {{"export", "SELECTOR", 1, 1, NULL,
      "writes profiles as pprof or stacks; see flamegrid bucket export --help\n"},
     NULL,
     false},
};

static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

static int fail(const struct bucket_verb *verb, const struct bucket_command *command,
                enum cli_exit code)
{
    (void)fprintf(stderr, "flamegrid bucket %s: %s\n", verb->verb.name, command->err.msg);
    return code;
}

static enum fg_code run_verb(const struct bucket_verb *verb, struct bucket_command *command)
{
    struct cli_json_report report;

    command->out = stdout;
    if (!command->json || !verb->reports)
        return verb->run(command);
    if (cli_json_report_begin(&report, &command->err) != FG_OK)
        return command->err.code;
    command->out = report.out;
    return cli_json_report_end(&report, verb->run(command), command->rebuild.apply, &command->err);
}

static int run(const struct bucket_verb *verb, struct bucket_command *command)
{
    enum fg_code code = single_open_bucket(&command->bucket, &command->err);

    if (code == FG_OK)
        code = fg_key_store_create(&(struct fg_key_store_config){.settings = command->encryption,
                                                                 .bucket = command->bucket,
                                                                 .by = "flamegrid bucket"},
                                   &command->keys, &command->err);
    if (code == FG_OK)
        code = run_verb(verb, command);
    fg_key_store_destroy(command->keys);
    fg_bucket_close(command->bucket);
    /* Errors of buffered output, such as a full disk, appear at the flush. */
    if (code == FG_OK && fflush(stdout) != 0)
        code = fg_fail_errno(&command->err, errno, "standard output");
    if (code == FG_OK)
        return CLI_OK;
    /* Exit codes of verify: 1 for faults, 2 if not all could be checked (see help). */
    return fail(verb, command,
                verb->run == verify && code != FG_E_CORRUPT ? CLI_UNKNOWN : CLI_FAILED);
}

static int with_def(const struct fg_program_def *def, int argc, char **argv)
{
    struct bucket_command command = {.name = "", .tenant = ""};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"recursive",   'r', ARGS_FLAG,   &command.recursive,           NULL, "list what is in folders", 0, 0},
        {"apply",       0,   ARGS_FLAG,   &command.rebuild.apply,       NULL, "do it; without it, print what would be done", 0, 0},
        {"accept-loss", 0,   ARGS_FLAG,   &command.rebuild.accept_loss, NULL, "go on without what is lost or in doubt", 0, 0},
        {"generation",  0,   ARGS_NUMBER, &command.rebuild.generation,  "N",  "give the new L0 manifest this generation at least", 0, UINT64_MAX},
        {"json",        0,   ARGS_FLAG,   &command.json,                NULL, "print one JSON document", 0, 0},
    };
    /* clang-format on */
    const struct cli_args_command args = {"bucket", "[options] [settings]", about,     notes,
                                          options,  FG_COUNT(options),      &all_verbs};
    int at = cli_args_first_word(&args, argc, argv), words, n_settings, code;
    const struct bucket_verb *verb;
    struct fg_program program;

    if (at < argc && strcmp(argv[at], "export") == 0) {
        memmove(argv + at, argv + at + 1, (size_t)(argc - at - 1) * sizeof *argv);
        return cli_bucket_export(def, argc - 1, argv);
    }
    verb = cli_args_begin_on_bucket(&args, argc, argv, &words, &n_settings, &code);
    if (verb == NULL)
        return code;
    if (words > 1)
        command.name = argv[1];
    if (words > 2)
        command.tenant = argv[2];
    command.encryption = &program.encryption;
    if (fg_program_configure(def, n_settings, argv + words, &program, &command.err) == FG_OK)
        code = run(verb, &command);
    else
        code = fail(verb, &command, CLI_USAGE);
    fg_program_forget(&program);
    return code;
}

int cli_bucket(int argc, char **argv)
{
    return single_with_def(with_def, argc, argv);
}
