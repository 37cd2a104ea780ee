#include "common/net/aws/request.h"

static void add_sorted(struct fg_aws_header *headers, size_t *n, const char *name,
                       const char *value)
{
    size_t at = *n;

    fg_assert(*n < FG_AWS_HEADERS_MAX);
    for (; at > 0 && strcmp(headers[at - 1].name, name) > 0; at--)
        headers[at] = headers[at - 1];
    headers[at] = (struct fg_aws_header){name, value};
    (*n)++;
}

/* "authorization: …" */
static const char *authorize(const struct fg_aws_signable *what, const struct fg_aws_keys *keys,
                             struct fg_arena *arena)
{
    struct fg_buf out;
    const char *text;

    fg_buf_init(&out, SIZE_MAX);
    fg_buf_puts(&out, "authorization: ");
    fg_aws_sign(what, keys, &out);
    text = fg_arena_text(arena, fg_buf_slice(&out));
    fg_buf_done(&out);
    return text;
}

const char *const *fg_aws_request_headers(const struct fg_aws_request *request,
                                          const struct fg_aws_keys *keys, int64_t wall_ns,
                                          struct fg_arena *arena)
{
    const char **lines = fg_arena_new(arena, const char *, FG_AWS_HEADERS_MAX + 2);
    struct fg_aws_header headers[FG_AWS_HEADERS_MAX];
    char date[FG_AWS_DATE_BYTES];
    size_t n = 0;

    fg_assert(lines != NULL);
    fg_aws_date(wall_ns, date);
    for (size_t i = 0; i < request->n_headers; i++)
        add_sorted(headers, &n, request->headers[i].name, request->headers[i].value);
    add_sorted(headers, &n, "host", request->host);
    add_sorted(headers, &n, "x-amz-content-sha256", request->payload_hash);
    add_sorted(headers, &n, "x-amz-date", date);
    if (keys->token[0] != '\0')
        add_sorted(headers, &n, "x-amz-security-token", keys->token);
    for (size_t i = 0; i < n; i++)
        lines[i] = fg_arena_printf(arena, "%s: %s", headers[i].name, headers[i].value);
    lines[n] = authorize(
        &(struct fg_aws_signable){
            .method = request->method,
            .path = request->path,
            .query = request->query,
            .headers = headers,
            .n_headers = n,
            .payload_hash = request->payload_hash,
            .date = date,
            .region = request->region,
            .service = request->service,
        },
        keys, arena);
    for (size_t i = 0; i <= n; i++)
        fg_assert(lines[i] != NULL);
    return lines;
}
