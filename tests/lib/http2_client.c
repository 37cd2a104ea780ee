#include "tests/lib/http2_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static ssize_t send_socket(struct h2_client *client, const void *bytes, size_t len)
{
    return send(client->fd, bytes, len, MSG_NOSIGNAL);
}

static ssize_t recv_socket(struct h2_client *client, void *bytes, size_t len)
{
    return recv(client->fd, bytes, len, 0);
}

void h2_init(struct h2_client *client, int fd)
{
    memset(client, 0, sizeof *client);
    client->fd = fd;
    client->send = send_socket;
    client->recv = recv_socket;
    client->goaway = H2_STILL_OPEN;
    client->window = client->first_window = 65535; /* RFC 9113, 6.9.2 */
    client->answers = calloc(H2_STREAMS_MAX, sizeof *client->answers);
    assert_non_null(client->answers);
    assert_int_equal(nghttp2_hd_inflate_new(&client->inflater), 0);
}

void h2_open(struct h2_client *client, int fd)
{
    h2_init(client, fd);
    h2_preface(client);
    h2_frame(client, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

void h2_close(struct h2_client *client)
{
    nghttp2_hd_inflate_del(client->inflater);
    for (unsigned i = 0; i < client->n_answers; i++)
        fg_buf_done(&client->answers[i].body);
    free(client->answers);
    if (client->fd >= 0)
        (void)close(client->fd);
}

/* --- saying --- */

/* Who hangs up on us shows when we listen. */
void h2_say(struct h2_client *client, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len > 0) {
        ssize_t n = client->send(client, at, len);

        if (n <= 0)
            return;
        at += n;
        len -= (size_t)n;
    }
}

void h2_preface(struct h2_client *client)
{
    h2_say(client, NGHTTP2_CLIENT_MAGIC, H2_PREFACE_BYTES);
}

void h2_frame(struct h2_client *client, unsigned type, unsigned flags, int32_t stream,
              const void *payload, size_t len)
{
    uint8_t frame[9 + H2_FRAME_MAX_BYTES + 1024] = {
        (uint8_t)(len >> 16),
        (uint8_t)(len >> 8),
        (uint8_t)len,
        (uint8_t)type,
        (uint8_t)flags,
        (uint8_t)((uint32_t)stream >> 24),
        (uint8_t)((uint32_t)stream >> 16),
        (uint8_t)((uint32_t)stream >> 8),
        (uint8_t)stream,
    };

    assert_true(len <= sizeof frame - 9);
    if (len > 0)
        memcpy(frame + 9, payload, len);
    h2_say(client, frame, 9 + len);
}

void h2_data(struct h2_client *client, int32_t stream, const void *bytes, size_t len, bool end)
{
    const uint8_t *at = bytes;

    do {
        size_t n = FG_MIN(len, (size_t)H2_FRAME_MAX_BYTES);

        len -= n;
        h2_frame(client, NGHTTP2_DATA, end && len == 0 ? NGHTTP2_FLAG_END_STREAM : 0, stream, at,
                 n);
        at = n == 0 ? at : at + n;
    } while (len > 0);
}

/* Returns how much may be sent on the stream now. */
static size_t room_for(struct h2_client *client, const struct h2_answer *answer)
{
    int64_t room = FG_MIN(client->window, client->first_window + answer->opened - answer->sent);

    return room < 0 ? 0 : (size_t)room;
}

void h2_upload(struct h2_client *client, int32_t stream, const void *bytes, size_t len, bool end)
{
    const uint8_t *at = bytes;

    while (!client->settings_heard)
        assert_true(h2_hear(client));
    do {
        struct h2_answer *answer = h2_of(client, stream);
        size_t n = FG_MIN(FG_MIN(len, (size_t)H2_FRAME_MAX_BYTES), room_for(client, answer));

        if (answer->reset != H2_STILL_OPEN || answer->ended)
            return;
        if (n == 0 && len > 0) {
            assert_true(h2_hear(client));
            continue;
        }
        len -= n;
        answer->sent += (int64_t)n;
        client->window -= (int64_t)n;
        h2_data(client, stream, at, n, end && len == 0);
        at = n == 0 ? at : at + n;
    } while (len > 0);
}

static void put_be32(uint8_t *out, uint32_t value)
{
    out[0] = (uint8_t)(value >> 24);
    out[1] = (uint8_t)(value >> 16);
    out[2] = (uint8_t)(value >> 8);
    out[3] = (uint8_t)value;
}

static uint32_t get_be32(const uint8_t *in)
{
    return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

void h2_reset(struct h2_client *client, int32_t stream, uint32_t code)
{
    uint8_t payload[4];

    put_be32(payload, code);
    h2_frame(client, NGHTTP2_RST_STREAM, 0, stream, payload, sizeof payload);
}

void h2_window(struct h2_client *client, int32_t stream, uint32_t by)
{
    uint8_t payload[4];

    put_be32(payload, by);
    h2_frame(client, NGHTTP2_WINDOW_UPDATE, 0, stream, payload, sizeof payload);
}

void h2_setting(struct h2_client *client, unsigned id, uint32_t value)
{
    uint8_t payload[6] = {(uint8_t)(id >> 8), (uint8_t)id};

    put_be32(payload + 2, value);
    h2_frame(client, NGHTTP2_SETTINGS, 0, 0, payload, sizeof payload);
}

/* --- requests --- */

/* RFC 7541, 5.1: seven bits of a length, more in bytes of seven bits. */
static void put_length(struct fg_buf *block, size_t len)
{
    if (len < 127) {
        fg_buf_putc(block, (uint8_t)len);
        return;
    }
    fg_buf_putc(block, 127);
    fg_buf_varint(block, len - 127);
}

void h2_put_field(struct fg_buf *block, const char *name, const char *value)
{
    fg_buf_putc(block, 0);
    put_length(block, strlen(name));
    fg_buf_puts(block, name);
    put_length(block, strlen(value));
    fg_buf_puts(block, value);
}

void h2_put_request(struct fg_buf *block, const char *method, const char *path,
                    const char *const *more)
{
    h2_put_field(block, ":method", method);
    h2_put_field(block, ":path", path);
    h2_put_field(block, ":scheme", "http");
    h2_put_field(block, ":authority", "a.test");
    for (; more != NULL && more[0] != NULL; more += 2)
        h2_put_field(block, more[0], more[1]);
}

void h2_request(struct h2_client *client, int32_t stream, const char *method, const char *path,
                const char *const *more, bool end)
{
    struct fg_buf block;

    fg_buf_init(&block, 1 << 20);
    h2_put_request(&block, method, path, more);
    h2_frame(client, NGHTTP2_HEADERS,
             NGHTTP2_FLAG_END_HEADERS | (end ? NGHTTP2_FLAG_END_STREAM : 0), stream, block.ptr,
             block.len);
    fg_buf_done(&block);
}

void h2_get(struct h2_client *client, int32_t stream, const char *path)
{
    h2_request(client, stream, "GET", path, NULL, true);
}

/* --- hearing --- */

struct h2_answer *h2_of(struct h2_client *client, int32_t stream)
{
    struct h2_answer *answer;

    for (unsigned i = 0; i < client->n_answers; i++)
        if (client->answers[i].stream == stream)
            return &client->answers[i];
    assert_true(client->n_answers < H2_STREAMS_MAX);
    answer = &client->answers[client->n_answers++];
    *answer = (struct h2_answer){.stream = stream, .reset = H2_STILL_OPEN};
    fg_buf_init(&answer->body, 64 << 20);
    return answer;
}

/* false: the peer has closed, before anything came. */
static bool read_all(struct h2_client *client, uint8_t *out, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = client->recv(client, out + got, len - got);

        if (n <= 0) {
            assert_int_equal(got, 0);
            return false;
        }
        got += (size_t)n;
    }
    return true;
}

/* A blank line ends the head: what comes after it are trailers. */
static void take_field(struct h2_answer *answer, const nghttp2_nv *field)
{
    bool trailer = strstr(answer->fields, "\n\n") != NULL;
    char *out = trailer ? answer->trailers : answer->fields;
    size_t max = trailer ? sizeof answer->trailers : sizeof answer->fields;
    size_t len = strlen(out);

    (void)snprintf(out + len, max - len, "%.*s: %.*s\n", (int)field->namelen, field->name,
                   (int)field->valuelen, field->value);
    if (field->namelen == 7 && memcmp(field->name, ":status", 7) == 0)
        answer->status = (unsigned)strtoul((const char *)field->value, NULL, 10);
}

static void take_headers(struct h2_client *client, struct h2_answer *answer, const uint8_t *block,
                         size_t len)
{
    int flags = 0;

    while (true) {
        nghttp2_nv field;
        ssize_t n = nghttp2_hd_inflate_hd2(client->inflater, &field, &flags, block, len, 1);

        assert_true(n >= 0);
        block += n;
        len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            take_field(answer, &field);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    assert_int_equal(nghttp2_hd_inflate_end_headers(client->inflater), 0);
    if (answer->status == 100) { /* the real one follows */
        answer->n_100++;
        answer->status = 0;
        memset(answer->fields, 0, sizeof answer->fields);
        return;
    }
    len = strlen(answer->fields);
    assert_true(len + 1 < sizeof answer->fields);
    answer->fields[len] = '\n';
}

static void take_settings(struct h2_client *client, unsigned flags, const uint8_t *payload,
                          size_t len)
{
    if (flags & NGHTTP2_FLAG_ACK) {
        client->settings_acked = true;
        return;
    }
    client->settings_heard = true;
    for (; len >= 6; payload += 6, len -= 6)
        if (payload[1] == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
            client->first_window = get_be32(payload + 2);
    if (!client->silent)
        h2_frame(client, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
}

static void take_data(struct h2_client *client, struct h2_answer *answer, const uint8_t *payload,
                      size_t len)
{
    answer->n_frames++;
    fg_buf_append(&answer->body, payload, len);
    if (len > 0 && !client->stingy && !client->silent) {
        h2_window(client, answer->stream, (uint32_t)len);
        h2_window(client, 0, (uint32_t)len);
    }
}

static void take_window(struct h2_client *client, int32_t stream, uint32_t by)
{
    if (stream == 0)
        client->window += by;
    else
        h2_of(client, stream)->opened += by;
}

bool h2_hear(struct h2_client *client)
{
    uint8_t head[9] = {0}, payload[H2_FRAME_MAX_BYTES] = {0};
    struct h2_answer *answer = NULL;
    size_t len;
    int32_t stream;

    if (!read_all(client, head, sizeof head))
        return false;
    len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    assert_true(len <= sizeof payload);
    assert_true(len == 0 || read_all(client, payload, len));
    client->last_stream = stream = (int32_t)(get_be32(head + 5) & INT32_MAX);
    if (stream != 0 && head[3] != NGHTTP2_WINDOW_UPDATE)
        answer = h2_of(client, stream);
    switch (head[3]) {
    case NGHTTP2_DATA:
        take_data(client, answer, payload, len);
        break;
    case NGHTTP2_HEADERS:
        assert_true(head[4] & NGHTTP2_FLAG_END_HEADERS);
        take_headers(client, answer, payload, len);
        break;
    case NGHTTP2_RST_STREAM:
        answer->reset = get_be32(payload);
        break;
    case NGHTTP2_SETTINGS:
        take_settings(client, head[4], payload, len);
        break;
    case NGHTTP2_PING:
        client->n_pongs += (head[4] & NGHTTP2_FLAG_ACK) != 0;
        break;
    case NGHTTP2_GOAWAY:
        client->goaway_last = (int32_t)get_be32(payload);
        client->goaway = get_be32(payload + 4);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        take_window(client, stream, get_be32(payload));
        break;
    default:
        fail_msg("frame of type %u", head[3]);
    }
    if (answer != NULL && head[3] <= NGHTTP2_HEADERS && (head[4] & NGHTTP2_FLAG_END_STREAM))
        answer->ended = true;
    return true;
}

struct h2_answer *h2_answer(struct h2_client *client, int32_t stream)
{
    struct h2_answer *answer = h2_of(client, stream);

    while (!answer->ended && answer->reset == H2_STILL_OPEN)
        if (!h2_hear(client))
            fail_msg("closed before stream %d ended (GOAWAY %d)", (int)stream, (int)client->goaway);
    return answer;
}

void h2_expect(struct h2_client *client, int32_t stream, unsigned status, const char *body)
{
    struct h2_answer *answer = h2_answer(client, stream);

    if (!answer->ended)
        fail_msg("stream %d was reset: %d", (int)stream, (int)answer->reset);
    assert_int_equal(answer->status, status);
    if (body != NULL) {
        fg_buf_putc(&answer->body, '\0');
        assert_string_equal((char *)answer->body.ptr, body);
        answer->body.len--;
    }
}

void h2_expect_reset(struct h2_client *client, int32_t stream, uint32_t code)
{
    struct h2_answer *answer = h2_answer(client, stream);

    assert_false(answer->ended);
    assert_int_equal(answer->reset, code);
}

void h2_expect_goaway(struct h2_client *client, uint32_t code)
{
    while (h2_hear(client))
        continue;
    assert_int_equal(client->goaway, code);
}

void h2_ping(struct h2_client *client)
{
    static const uint8_t payload[8] = "are you";
    unsigned pongs = client->n_pongs;

    h2_frame(client, NGHTTP2_PING, 0, 0, payload, sizeof payload);
    while (client->n_pongs == pongs)
        assert_true(h2_hear(client));
}
