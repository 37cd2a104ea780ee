#include "deploy/cli/usage_ask.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/value_text.h"
#include "deploy/cli/times.h"

#include <inttypes.h>

enum { PATH_MAX_BYTES = 4096 }; /* of a URL: tenant, range and a few parameters */

static enum fg_code put_time(struct fg_buf *path, const char *option, const char *name,
                             const char *text, struct fg_err *err)
{
    int64_t ns;

    if (text == NULL)
        return FG_OK;
    if (cli_time_parse(option, text, fg_wall_ns(fg_clock_real()), &ns, err) != FG_OK)
        return err->code;
    fg_buf_printf(path, "&%s=", name);
    cli_time_put_ms(ns / FG_MS_NS, path);
    return FG_OK;
}

static enum fg_code ask_server(struct cli_client *client, const struct cli_usage_question *question,
                               const char *format, struct cli_client_reply *ret_reply,
                               struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    struct fg_buf path;
    enum fg_code code;

    fg_buf_init(&path, PATH_MAX_BYTES);
    fg_buf_printf(&path, "/api/usage?format=%s", format);
    if (question->by != NULL) {
        fg_buf_puts(&path, "&by=");
        fg_buf_url(&path, fg_cstr(question->by));
    }
    code = put_time(&path, "--from", "from", question->from, err);
    if (code == FG_OK)
        code = put_time(&path, "--until", "until", question->until, err);
    fg_buf_putc(&path, '\0');
    if (code == FG_OK && path.full)
        code = fg_fail(err, FG_E_INVALID, "--by is too long");
    if (code == FG_OK)
        code = cli_client_get(client, (const char *)path.ptr, &reply, err);
    fg_buf_done(&path);
    if (code == FG_OK)
        code = cli_client_check(&reply, err);
    if (code != FG_OK)
        cli_client_reply_done(&reply);
    else
        *ret_reply = reply;
    return code;
}

enum fg_code cli_usage_ask_csv(struct cli_client *client, const struct cli_usage_question *question,
                               struct cli_client_reply *ret_reply, struct fg_err *err)
{
    return ask_server(client, question, "csv", ret_reply, err);
}

enum fg_code cli_usage_ask_json(struct cli_client *client,
                                const struct cli_usage_question *question, json_t **ret_answer,
                                struct fg_err *err)
{
    struct cli_client_reply reply;
    json_t *answer;

    if (ask_server(client, question, "json", &reply, err) != FG_OK)
        return err->code;
    answer = json_loadb((const char *)reply.body.ptr, reply.body.len, 0, NULL);
    cli_client_reply_done(&reply);
    if (!json_is_array(json_object_get(answer, "days"))) {
        json_decref(answer);
        return fg_fail(err, FG_E_CORRUPT, "the server's answer is no usage");
    }
    *ret_answer = answer;
    return FG_OK;
}

uint64_t cli_usage_number(const json_t *object, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(object, key));

    return number < 0 ? 0 : (uint64_t)number;
}

static uint64_t sum_waiting(const json_t *answer, const char *key)
{
    const json_t *waiting = json_object_get(answer, "waiting");
    uint64_t sum = 0;

    for (size_t i = 0; i < json_array_size(waiting); i++)
        sum += cli_usage_number(json_array_get(waiting, i), key);
    return sum;
}

void cli_usage_missing(const json_t *answer, struct fg_buf *out)
{
    uint64_t profiles = sum_waiting(answer, "profiles");
    const json_t *days = json_object_get(answer, "days");
    size_t growing = 0;

    for (size_t i = 0; i < json_array_size(days); i++)
        growing += json_is_true(json_object_get(json_array_get(days, i), "preliminary"));
    if (json_array_size(days) == 0 && profiles == 0)
        fg_buf_puts(out,
                    "nothing is counted for these days yet; profiles are counted once they are "
                    "in the bucket, some minutes after they came");
    if (profiles + growing == 0)
        return;
    fg_buf_puts(out, "not all is in yet: ");
    if (profiles > 0) {
        fg_buf_printf(out, "%" PRIu64 " profile%s (", profiles, profiles == 1 ? "" : "s");
        fg_value_scaled((int64_t)sum_waiting(answer, "wire_bytes"), FG_LIT("bytes"), out);
        fg_buf_puts(out, " as sent) still to be merged, for no day yet");
    }
    if (profiles > 0 && growing > 0)
        fg_buf_puts(out, ", and ");
    if (growing > 0)
        fg_buf_printf(out, "the numbers of %zu day%s still grow", growing, growing == 1 ? "" : "s");
}
