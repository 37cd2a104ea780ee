#include "common/runtime/log.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/log_limit.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = PIPE_BUF, /* what one write(2) to a pipe keeps together */
    LINE_SPARE_BYTES = 16,     /* " cut=true" and the line's end */
    VALUE_MAX_BYTES = 1024,    /* one value must not crowd out the others */
};

static _Atomic int least_level = FG_LOG_INFO;
static _Atomic int log_fd = STDERR_FILENO;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* Of the limit; not held while a line is written, so that a slow stderr holds up its writer only.
 */
static pthread_mutex_t limit_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct fg_log_limit limit;

/* ---- one line ---- */

/* True if a reader would not take the text for one word. */
static bool needs_quotes(struct fg_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] == '"' || text.ptr[i] == '=' || text.ptr[i] == 0x7f)
            return true;
    return text.len == 0 || !fg_utf8_valid(text);
}

/* At most max bytes, not ending inside a UTF-8 sequence. */
static struct fg_slice cut_text(struct fg_slice text, size_t max)
{
    if (text.len <= max)
        return text;
    while (max > 0 && (text.ptr[max] & 0xc0) == 0x80)
        max--;
    return fg_slice_sub(text, 0, max);
}

/* Escapes are JSON's, as the usual logfmt readers expect. */
static void put_text(struct fg_buf *line, struct fg_slice text, bool always_quote)
{
    struct fg_slice kept = cut_text(text, VALUE_MAX_BYTES);

    if (!always_quote && kept.len == text.len && !needs_quotes(text)) {
        fg_buf_put(line, text);
        return;
    }
    fg_buf_putc(line, '"');
    fg_buf_json(line, kept);
    if (kept.len < text.len)
        fg_buf_puts(line, "...");
    fg_buf_putc(line, '"');
}

static void put_value(struct fg_buf *line, const struct fg_log_field *field)
{
    switch (field->kind) {
    case FG_LOG_TEXT:
        put_text(line, fg_cstr(field->text == NULL ? "" : field->text), false);
        break;
    case FG_LOG_BYTES:
        put_text(line, field->bytes, false);
        break;
    case FG_LOG_INT:
        fg_buf_i64(line, field->i);
        break;
    case FG_LOG_UINT:
        fg_buf_u64(line, field->u);
        break;
    case FG_LOG_FLOAT:
        fg_buf_printf(line, "%.9g", field->f);
        break;
    case FG_LOG_BOOL:
        fg_buf_puts(line, field->b ? "true" : "false");
        break;
    }
}

static void put_fields(struct fg_buf *line, const struct fg_log_field *fields)
{
    bool cut = false;

    for (; fields->key != NULL; fields++) {
        size_t before = line->len;

        fg_buf_putc(line, ' ');
        fg_buf_puts(line, fields->key);
        fg_buf_putc(line, '=');
        put_value(line, fields);
        if (line->full) { /* half a field is worse than none */
            line->len = before;
            line->full = false;
            cut = true;
        }
    }
    /* The spare bytes were kept back until here, so every line ends with a newline. */
    line->max_bytes += LINE_SPARE_BYTES;
    line->cap += LINE_SPARE_BYTES;
    if (cut)
        fg_buf_puts(line, " cut=true");
    fg_buf_putc(line, '\n');
}

static void put_head(struct fg_buf *line, enum fg_log_level level, const char *msg)
{
    int64_t wall_ns = fg_wall_ns(fg_clock_real());
    time_t seconds = (time_t)(wall_ns / FG_SECOND_NS);
    struct tm utc;

    (void)gmtime_r(&seconds, &utc);
    fg_buf_printf(line, "ts=%04d-%02d-%02dT%02d:%02d:%02d.%03dZ level=%s msg=", utc.tm_year + 1900,
                  utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                  (int)(wall_ns % FG_SECOND_NS / FG_MS_NS), level_names[level]);
    put_text(line, fg_cstr(msg), true);
}

/* A line that cannot be written is lost, as there is no other place to report it. */
static void write_all(int fd, struct fg_slice bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.ptr, bytes.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        bytes = fg_slice_sub(bytes, (size_t)n, bytes.len);
    }
}

static void write_line(enum fg_log_level level, const char *msg, const struct fg_log_field *fields)
{
    /* On the stack and with one write(2): a line is logged from any thread, also when memory is
     * short, and lines do not mix. */
    uint8_t bytes[LINE_MAX_BYTES];
    /* Never grows, since all of what it may hold is there from the start. */
    struct fg_buf line = {.ptr = bytes,
                          .cap = sizeof bytes - LINE_SPARE_BYTES,
                          .max_bytes = sizeof bytes - LINE_SPARE_BYTES};

    put_head(&line, level, msg);
    put_fields(&line, fields);
    write_all(atomic_load_explicit(&log_fd, memory_order_relaxed), fg_buf_slice(&line));
}

void fg_log_write(enum fg_log_level level, const char *msg, const struct fg_log_field *fields)
{
    int64_t now_mono_ns = fg_mono_ns(fg_clock_real());
    struct fg_log_speaker owing;
    bool admitted, owes;

    if ((int)level < atomic_load_explicit(&least_level, memory_order_relaxed))
        return;
    do {
        /* Only the limit is under the lock; a slow terminal holds up the threads that log and no
         * others. */
        pthread_mutex_lock(&limit_mutex);
        owes = fg_log_limit_take_owing(&limit, now_mono_ns, &owing);
        admitted = !owes && fg_log_limit_admit(&limit, msg, level, now_mono_ns);
        pthread_mutex_unlock(&limit_mutex);
        if (owes)
            write_line(owing.level, "log lines left out",
                       FG_LOG_FIELDS(fg_ls("of", owing.msg), fg_lu("lines", owing.left_out)));
    } while (owes);
    if (admitted)
        write_line(level, msg, fields);
}

void fg_log_set_level(enum fg_log_level least)
{
    atomic_store_explicit(&least_level, (int)least, memory_order_relaxed);
}

void fg_log_set_fd(int fd)
{
    atomic_store_explicit(&log_fd, fd, memory_order_relaxed);
}
