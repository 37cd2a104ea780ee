/*
 * `flamegrid bucket export`: profiles out of a bucket, without a server. A querier that has no
 * ingesters reads it, as it reads for everybody else.
 */
#include "deploy/cli/bucket_export.h"

#include "common/access/keys/key_store.h"
#include "common/base/str.h"
#include "common/model/flame.h"
#include "common/model/pprof_write.h"
#include "common/model/tenant_id.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/client.h"
#include "deploy/cli/export_dir.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/output.h"
#include "deploy/cli/selection.h"
#include "deploy/cli/show.h"
#include "deploy/single/server.h"

#include <unistd.h>

enum {
    ARENA_MAX_BYTES = 16 * 1024 * 1024, /* of what was asked for, and ids of types */
    MISSING_TEXT_MAX_BYTES = 4096,      /* above what a querier says */
};

/* Each request has its own, shorter one, and so many tries; this is for what nobody thought of. */
static const int64_t TIMEOUT_NS = 24 * FG_HOUR_NS;

struct export
{
    const char *selector, *type, *from, *until, *tenant, *format, *file;
    bool split, json, partial;

    struct cli_selection selection;
    struct qry_export what;
    struct fg_buf missing; /* what the export lacks; empty: nothing */
    struct fg_arena *arena;
    const struct fg_encryption_settings *encryption;
    struct fg_bucket *bucket;
    struct fg_key_store *keys; /* NULL: nothing is encrypted */
    struct fg_registry *registry;
    struct querier *querier;
};

static const char about[] =
    "Writes the profiles that SELECTOR matches in the time range, straight from the bucket of a\n"
    "server with the same settings, whether one runs or not: merged, or one by one with --split.\n";

static const char notes[] =
    "SELECTOR, TYPE and times are those of flamegrid query; see flamegrid query --help. The "
    "bucket\n"
    "has what a server has committed: profiles of the last quarter of an hour may be missing.\n"
    "\n"
    "FORMAT is\n"
    "  pprof   gzip'ed, with addresses and lines; the default\n"
    "  folded  collapsed stacks, \"main;work 30\" a line\n"
    "\n"
    "--split writes DIR/SERVICE-HASH/DAY/TIME-ID.pb.gz for each profile, and its labels to\n"
    "DIR/SERVICE-HASH/.series, for flamegrid push --dir DIR. Without a TYPE a file has all sample\n"
    "types. Samples have their spans and traces as labels.\n"
    "\n"
    "The settings say where the bucket is, as for all of flamegrid bucket: --config FILE, --data\n"
    "DIR, --bucket.type s3 and so on, or FG_... in the environment. --querier.answer_max_bytes\n"
    "bounds the memory of an export, for its stacks and for its output.\n"
    "\n"
    "An export fails if it cannot read data that it needs. With --partial it leaves that data out\n"
    "and lists it on standard error, as well as data that bucket repair gave up.\n"
    "\n"
    "examples:\n"
    "  flamegrid bucket export shop --from now-6h -o shop.pb.gz --data /var/lib/flamegrid\n"
    "  flamegrid bucket export 'shop.alloc_space{env=\"prod\"}' --format folded\n"
    "  flamegrid bucket export '{}' --from 20240101 --split -o profiles --config flamegrid.yaml\n"
    "  flamegrid push --dir profiles --url http://other:4040\n";

static enum fg_code fail_empty(const struct export *export, struct fg_err *err)
{
    return fg_fail(err, FG_E_NOT_FOUND,
                   "the bucket has no profiles of %.*s of tenant %s from %s until %s",
                   FG_S(export->selection.labels), export->tenant, export->from, export->until);
}

/* ---- what comes out ---- */

/* A full buffer drops what does not fit, so it must not be written as if it were complete. */
static enum fg_code check_output(const struct export *export, const struct fg_buf *out,
                                 struct fg_err *err)
{
    if (out->full)
        return fg_fail(err, FG_E_LIMIT, "the output has more than %zu bytes", out->max_bytes);
    return out->len == 0 ? fail_empty(export, err) : FG_OK;
}

/* --json: what was written where. */
static enum fg_code say_written(const struct export *export, uint64_t bytes, struct fg_err *err)
{
    if (!export->json)
        return FG_OK;
    return cli_json_print(json_pack("{s:o,s:s,s:o}", "file", cli_json_text(fg_cstr(export->file)),
                                    "format", export->format, "bytes", cli_json_u64(bytes)),
                          stdout, err);
}

static enum fg_code run_pprof(const struct export *export, struct fg_buf *out, struct fg_err *err)
{
    struct fg_pprof_head head = {.time_ns = export->what.end_ms * FG_MS_NS};
    struct fg_tree tree;

    if (fg_profile_type_parse(fg_cstr(export->what.type), &head.type, err) != FG_OK)
        return err->code;
    fg_tree_init(&tree);
    enum fg_code code = qry_export_tree(export->querier, &export->what, false, &tree, err);
    /* Samples without a stack are in root_self, so a tree without nodes may still have a value. */
    if (code == FG_OK && tree.n_nodes == 0 && tree.root_self == 0)
        code = fail_empty(export, err);
    if (code == FG_OK) {
        fg_pprof_write(&tree, &head, out);
        code = check_output(export, out, err);
    }
    fg_tree_done(&tree);
    if (code == FG_OK)
        code = cli_output_write_gzip(export->file, fg_buf_slice(out), err);
    return code == FG_OK ? say_written(export, out->len, err) : code;
}

static enum fg_code run_folded(const struct export *export, struct fg_buf *out, struct fg_err *err)
{
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = qry_export_tree(export->querier, &export->what, true, &tree, err);
    if (code == FG_OK) {
        fg_flame_write_folded(&tree, out);
        code = check_output(export, out, err);
    }
    fg_tree_done(&tree);
    if (code == FG_OK)
        code = cli_output_write(export->file, fg_buf_slice(out), err);
    return code == FG_OK ? say_written(export, out->len, err) : code;
}

/* Writes each profile as it is read: memory does not grow with the number of profiles. */
static enum fg_code run_split(const struct export *export, struct fg_err *err)
{
    struct cli_export_dir dir = {.path = export->file};
    uint64_t profiles;

    cli_progress_start(&dir.progress, "profiles", 0); /* how many there are shows as they come */
    enum fg_code code = qry_export_profiles(export->querier, &export->what, cli_export_dir_add,
                                            &dir, &profiles, err);
    cli_progress_clear(&dir.progress);
    if (code != FG_OK)
        return code;
    if (profiles == 0)
        return fail_empty(export, err);
    if (export->json)
        return cli_json_print(json_pack("{s:o,s:s,s:o}", "folder",
                                        cli_json_text(fg_cstr(export->file)), "format", "pprof",
                                        "profiles", cli_json_u64(profiles)),
                              stdout, err);
    printf("%llu profiles written\n", (unsigned long long)profiles);
    return FG_OK;
}

static bool is_folded(const struct export *export)
{
    return strcmp(export->format, "folded") == 0;
}

static enum fg_code write_what(const struct export *export, struct fg_err *err)
{
    struct fg_buf out;

    if (export->split)
        return run_split(export, err);
    fg_buf_init(&out, single_querier.answer_max_bytes);
    enum fg_code code =
        is_folded(export) ? run_folded(export, &out, err) : run_pprof(export, &out, err);
    fg_buf_done(&out);
    return code;
}

/* ---- what is asked for ---- */

static enum fg_code check_output_options(const struct export *export, struct fg_err *err)
{
    if (!is_folded(export) && strcmp(export->format, "pprof") != 0)
        return fg_fail(err, FG_E_INVALID, "--format %s: it is pprof or folded", export->format);
    if (export->split && export->file == NULL)
        return fg_fail(err, FG_E_INVALID, "--split needs a folder: add -o DIR");
    if (export->split && is_folded(export))
        return fg_fail(err, FG_E_INVALID, "--split writes pprof, which has a time in it");
    if (export->json && export->file == NULL)
        return fg_fail(err, FG_E_INVALID, "--json needs -o: the output is not JSON");
    if (export->file == NULL && !is_folded(export) && isatty(STDOUT_FILENO) == 1)
        return fg_fail(err, FG_E_INVALID, "pprof is not for a terminal: add -o FILE");
    return FG_OK;
}

static enum fg_code check(struct export *export, struct fg_err *err)
{
    struct cli_selection_range range;

    if (check_output_options(export, err) != FG_OK)
        return err->code;
    if (cli_selection_parse(fg_cstr(export->selector), export->arena, &export->selection, err) !=
        FG_OK)
        return fg_wrap(err, "%s", export->selector);
    if (export->type != NULL)
        export->selection.type = fg_cstr(export->type);
    if (cli_selection_range(export->from, export->until, fg_wall_ns(fg_clock_real()), &range,
                            err) != FG_OK ||
        fg_tenant_check(fg_cstr(export->tenant), err) != FG_OK)
        return err->code;
    export->what = (struct qry_export){
        .tenant = fg_cstr(export->tenant),
        .selector = fg_arena_text(export->arena, export->selection.labels),
        .start_ms = range.start_ms,
        .end_ms = range.end_ms,
        .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + TIMEOUT_NS,
        .partial = export->partial,
        .missing = &export->missing,
    };
    return export->what.selector == NULL ? fg_fail(err, FG_E_INVALID, "the selector is too long")
                                         : FG_OK;
}

/* A short type is one of those that are there. */
static enum fg_code resolve_type(struct export *export, struct fg_err *err)
{
    struct fg_slice type = export->selection.type, *ids;
    const char *of;
    size_t n;

    /* A file then has all sample types of its profile, as the agent sent it. */
    if (export->split && type.len == 0)
        return FG_OK;
    if (!cli_selection_is_full_type(type)) {
        if (qry_export_types(export->querier, &export->what, export->arena, &ids, &n, err) != FG_OK)
            return err->code;
        if (n == 0)
            return fail_empty(export, err);
        of = fg_arena_printf(export->arena, " of %.*s from %s until %s",
                             FG_S(export->selection.labels), export->from, export->until);
        if (cli_selection_choose_type(type, ids, n, of == NULL ? "" : of, &type, err) != FG_OK)
            return err->code;
    }
    export->what.type = fg_arena_text(export->arena, type);
    return export->what.type == NULL ? fg_fail(err, FG_E_INVALID, "the type is too long") : FG_OK;
}

static enum fg_code open_querier(struct export *export, struct fg_err *err)
{
    struct fg_key_store_config keys = {.settings = export->encryption,
                                       .by = "flamegrid bucket export"};

    if (single_open_bucket(&export->bucket, err) != FG_OK)
        return err->code;
    keys.bucket = export->bucket;
    if (fg_key_store_create(&keys, &export->keys, err) != FG_OK)
        return err->code;
    export->registry = fg_registry_create();
    qry_share(&single_querier, 0); /* nothing else needs memory: as little as a querier ever has */
    /* Without ingesters: an export has what the bucket has. */
    export->querier = qry_create(&(struct qry_config){
        .registry = export->registry,
        .clock = fg_clock_real(),
        .answer_max_bytes = single_querier.answer_max_bytes,
        .bucket = export->bucket,
        .cache_max_bytes = single_querier.cache_max_bytes,
        .fetch_max_bytes = single_querier.fetch_max_bytes,
        .manifest_age_ns = single_querier.manifest_age_ns,
    });
    return FG_OK;
}

/* In the opposite order of open_querier(): the querier uses the others until it is destroyed. */
static void close_querier(struct export *export)
{
    qry_destroy(export->querier);
    if (export->registry != NULL)
        fg_registry_destroy(export->registry);
    fg_key_store_destroy(export->keys);
    fg_bucket_close(export->bucket);
}

/* ---- the command ---- */

/* On standard error, so that the output stays what it is. */
static void warn_missing(const struct export *export)
{
    struct fg_buf text;

    if (export->missing.len == 0)
        return;
    fg_buf_init(&text, SIZE_MAX);
    cli_show_text(fg_buf_slice(&export->missing), &text);
    (void)fprintf(stderr, "flamegrid: the export is not complete: %.*s\n",
                  FG_S(fg_buf_slice(&text)));
    fg_buf_done(&text);
}

static int run(struct export *export, const struct cli_args_command *command)
{
    struct fg_err err;
    const char *hint;

    /* Options first: an invalid one must not cost a connection to the bucket. */
    if (check(export, &err) != FG_OK)
        return cli_args_refuse(command, &err);
    enum fg_code code = open_querier(export, &err);
    if (code == FG_OK)
        code = resolve_type(export, &err);
    if (code == FG_OK)
        code = write_what(export, &err);
    close_querier(export);
    warn_missing(export);
    /* The limit that was hit is the querier's, whose error does not name the setting. */
    if (code == FG_E_LIMIT)
        (void)fg_wrap(&err, "more than --querier.answer_max_bytes allows");
    if (code == FG_OK)
        return CLI_OK;
    hint = cli_client_hint(fg_cstr(err.msg));
    if (hint[0] != '\0')
        (void)snprintf(err.msg + strlen(err.msg), sizeof err.msg - strlen(err.msg), "%s", hint);
    return cli_args_fail(command, &err);
}

static int run_with(const struct fg_program_def *def, const struct cli_args_command *command,
                    struct export *export, int n_settings, char **settings)
{
    struct fg_program program;
    struct fg_err err;
    int code;

    export->encryption = &program.encryption;
    if (fg_program_configure(def, n_settings, settings, &program, &err) == FG_OK)
        code = run(export, command);
    else
        code = cli_args_refuse(command, &err);
    export->encryption = NULL; /* it ends here */
    fg_program_forget(&program);
    return code;
}

int cli_bucket_export(const struct fg_program_def *def, int argc, char **argv)
{
    struct export export = {
        .from = "now-1h", .until = "now", .tenant = FG_TENANT_ONLY, .format = "pprof"};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"type",   't', ARGS_TEXT, &export.type,   "TYPE",   "select this profile type, in full or short", 0, 0},
        {"from",   0,   ARGS_TEXT, &export.from,   "TIME",   "begin the range here; default now-1h", 0, 0},
        {"until",  0,   ARGS_TEXT, &export.until,  "TIME",   "end the range here; default now", 0, 0},
        {"tenant", 0,   ARGS_TEXT, &export.tenant, "TENANT", "export profiles of this tenant; default " FG_TENANT_ONLY, 0, 0},
        {"format", 'f', ARGS_TEXT, &export.format, "FORMAT", "write pprof or folded; default pprof", 0, 0},
        {"split",  0,   ARGS_FLAG, &export.split,  NULL,     "write each profile to a file of its own", 0, 0},
        {"file",   'o', ARGS_TEXT, &export.file,   "FILE",   "write to this file, with --split to this folder", 0, 0},
        {"partial", 0,  ARGS_FLAG, &export.partial, NULL,    "leave out what cannot be read, and say what it is", 0, 0},
        {"json",   0,   ARGS_FLAG, &export.json,   NULL,     "print what was written where as JSON; needs -o", 0, 0},
    };
    /* clang-format on */
    const struct cli_args_command command = {"bucket export",
                                             "SELECTOR [options] [settings]",
                                             about,
                                             notes,
                                             options,
                                             FG_COUNT(options),
                                             NULL};
    struct fg_err err;
    int words, n_settings, code;

    if (cli_args_wants_help(&command, argc, argv))
        return CLI_OK;
    if (cli_args_split(&command, argc, argv, &words, &n_settings, &err) != FG_OK)
        return cli_args_refuse(&command, &err);
    if (words != 1) {
        (void)fg_fail(&err, FG_E_INVALID,
                      words == 0 ? "a SELECTOR has to follow, {} for all" : "too many words");
        return cli_args_refuse(&command, &err);
    }
    export.selector = argv[0];
    export.arena = fg_arena_create(ARENA_MAX_BYTES);
    fg_buf_init(&export.missing, MISSING_TEXT_MAX_BYTES);
    code = run_with(def, &command, &export, n_settings, argv + words);
    fg_buf_done(&export.missing);
    fg_arena_destroy(export.arena);
    return code;
}
