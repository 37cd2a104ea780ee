/*
 * `flamegrid ring VERB [WORD] [settings]`: the ring in the bucket as a server with these settings
 * has it, whether one runs or not. A verb is a row of the table at the end.
 */
#include "common/base/str.h"
#include "common/cluster/ring/object.h"
#include "common/cluster/ring/page.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/single/server.h"

#include <errno.h>
#include <string.h>

enum { OUTPUT_MAX_BYTES = 64 * 1024 * 1024 }; /* more than the largest possible ring has */

static const int64_t TIMEOUT_NS = FG_MINUTE_NS; /* of one request */

struct ring_command {
    struct fg_ring_object ring; /* where it is */
    const char *word;           /* what follows the verb */
    bool json;
    struct fg_err err;
};

struct ring_verb {
    struct cli_args_verb verb;
    enum fg_code (*run)(struct ring_command *command);
};

static const char about[] =
    "The ring lists the ingesters of a cluster, and says which of them own which shards.\n";

static const char notes[] =
    "Works on the bucket that a server with the same settings has: --config FILE, --data DIR,\n"
    "--bucket.type s3 and so on, or FG_... in the environment.\n"
    "\n"
    "examples:\n"
    "  flamegrid ring ls --config flamegrid.yaml\n"
    "  flamegrid ring forget ingester-3 --config flamegrid.yaml\n";

/* ---- verbs ---- */

static enum fg_code print(struct ring_command *command, const struct fg_ring_view *view)
{
    enum fg_code code = FG_OK;
    struct fg_buf text;

    fg_buf_init(&text, OUTPUT_MAX_BYTES);
    if (command->json)
        fg_ring_json(&view->ring, &text);
    else
        fg_ring_write_text(view, &text);
    if (fwrite(text.ptr, 1, text.len, stdout) != text.len)
        code = fg_fail_errno(&command->err, errno, "standard output");
    fg_buf_done(&text);
    return code;
}

static enum fg_code ls(struct ring_command *command)
{
    fg_auto(fg_ring_view) *view = NULL;

    if (fg_ring_object_read(&command->ring, &view, NULL, &command->err) != FG_OK)
        return command->err.code;
    return print(command, view);
}

/* Makes the change and shows the ring after it. */
static enum fg_code change(struct ring_command *command, const struct fg_ring_change *wanted)
{
    fg_auto(fg_ring_view) *view = NULL;

    if (fg_ring_object_change(&command->ring, wanted, &view, &command->err) != FG_OK)
        return command->err.code;
    return print(command, view);
}

/* Gives up a member. Refuses an unknown name, most likely a typo, which the change itself would
 * ignore. */
static enum fg_code forget(struct ring_command *command)
{
    const struct fg_ring_change wanted = {.kind = FG_RING_FORGET, .name = fg_cstr(command->word)};
    fg_auto(fg_ring_view) *view = NULL;

    if (fg_ring_object_read(&command->ring, &view, NULL, &command->err) != FG_OK)
        return command->err.code;
    if (fg_ring_find(&view->ring, wanted.name) == FG_RING_NO_MEMBER)
        return fg_fail(&command->err, FG_E_NOT_FOUND, "no member of the ring is called %.200s",
                       command->word);
    return change(command, &wanted);
}

static enum fg_code replicate(struct ring_command *command)
{
    struct fg_ring_change wanted = {.kind = FG_RING_REPLICATE};
    uint64_t replicas;

    if (!fg_parse_u64(fg_cstr(command->word), &replicas) || replicas == 0 ||
        replicas > FG_RING_REPLICAS_MAX)
        return fg_fail(&command->err, FG_E_INVALID, "%.200s replicas; there can be 1 to %d",
                       command->word, FG_RING_REPLICAS_MAX);
    wanted.replicas = (unsigned)replicas;
    return change(command, &wanted);
}

/* ---- the command ---- */

static const struct ring_verb verbs[] = {
    {{"ls", NULL, 0, 0, NULL,
      "lists the members with the number of their shards, and the revisions; profiles\n"
      "that came under an older revision are not all committed yet\n"},
     ls},
    {{"forget", "NAME", 1, 1, NULL,
      "gives up a member that is gone for good with all it held; stop it first. Its\n"
      "profiles survive with the other replicas, if no second member is lost before all\n"
      "revisions of now have drained\n"},
     forget},
    {{"replicate", "N", 1, 1, NULL, "stores each profile with N members from now on: 1 to 3\n"},
     replicate},
};

static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

static enum fg_code run(const struct ring_verb *verb, struct ring_command *command)
{
    struct fg_bucket *bucket = NULL;
    enum fg_code code = single_open_bucket(&bucket, &command->err);

    if (code != FG_OK)
        return code;
    command->ring = (struct fg_ring_object){
        .bucket = bucket,
        .wave = fg_bucket_wave_create(),
        .clock = fg_clock_real(),
        .timeout_ns = TIMEOUT_NS,
    };
    code = verb->run(command);
    fg_bucket_wave_destroy(command->ring.wave);
    fg_bucket_close(bucket);
    /* Errors of buffered output, such as a full disk, appear at the flush. */
    if (code == FG_OK && fflush(stdout) != 0)
        code = fg_fail_errno(&command->err, errno, "standard output");
    return code;
}

static int with_def(const struct fg_program_def *def, int argc, char **argv)
{
    struct ring_command command = {0};
    const struct cli_args_option options[] = {
        {"json", 0, ARGS_FLAG, &command.json, NULL, "print all of the ring as JSON", 0, 0},
    };
    const struct cli_args_command args = {"ring",  "[--json] [settings]", about,     notes,
                                          options, FG_COUNT(options),     &all_verbs};
    struct fg_program program;
    int words, n_settings, code;
    const struct ring_verb *verb =
        cli_args_begin_on_bucket(&args, argc, argv, &words, &n_settings, &code);

    if (verb == NULL)
        return code;
    command.word = words > 1 ? argv[1] : NULL;
    if (fg_program_configure(def, n_settings, argv + words, &program, &command.err) != FG_OK)
        code = cli_args_refuse(&args, &command.err);
    else
        code = run(verb, &command) == FG_OK ? CLI_OK : cli_args_fail(&args, &command.err);
    fg_program_forget(&program);
    return code;
}

int cli_ring(int argc, char **argv)
{
    return single_with_def(with_def, argc, argv);
}
