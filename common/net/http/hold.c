/*
 * The memory that requests and answers hold, and how fast peers read their answers.
 *
 * Every request takes HTTP_REQUEST_BYTES, which covers a head and an answer of HTTP_SMALL_BYTES
 * each. So small answers (errors, probes, acknowledgements of pushes) need no memory of their own
 * and are never refused; the number of requests is limited instead.
 */
#include "common/net/http/impl.h"
#include "common/runtime/log.h"

enum {
    /* Bytes of an answer that TLS keeps a second time: records encrypted ahead of the socket. */
    CIPHER_BYTES = 80 * 1024,
};

/* The short window of struct fg_http_reader. Longer than any round trip, so a peer that reads at
 * all acknowledges something within it. */
#define MOMENT_NS FG_SECOND_NS

/* --- requests --- */

void fg_http_request_pay(struct fg_http_request *req)
{
    struct fg_budget *budget = req->conn->owner->lent.heads;

    req->request_bytes = HTTP_REQUEST_BYTES;
    if (budget != NULL)
        fg_budget_force(budget, HTTP_REQUEST_BYTES);
}

bool fg_http_request_pay_head(struct fg_http_request *req, size_t head_bytes)
{
    struct fg_budget *budget = req->conn->owner->lent.heads;
    uint64_t paid = req->request_bytes - HTTP_REQUEST_BYTES + HTTP_SMALL_BYTES, more;

    if (head_bytes <= paid)
        return true;
    more = FG_MAX((uint64_t)head_bytes, 2 * paid) - paid; /* as buffers grow */
    if (budget != NULL && !fg_budget_take(budget, more))
        return false;
    req->request_bytes += more;
    return true;
}

void fg_http_request_repay(struct fg_http_request *req)
{
    struct fg_budget *budget = req->conn->owner->lent.heads;

    if (budget != NULL)
        fg_budget_give(budget, req->request_bytes);
    req->request_bytes = 0;
}

bool fg_http_request_fits(const struct fg_http_conn *conn, unsigned n_requests)
{
    struct fg_budget *budget = conn->owner->lent.heads;

    return n_requests == 0 || budget == NULL || fg_budget_has(budget, HTTP_REQUEST_BYTES);
}

/* --- answers --- */

static uint64_t answer_memory(const struct fg_http_request *req)
{
    uint64_t bytes = req->out.cap;

    return req->conn->secure ? bytes + FG_MIN(bytes, (uint64_t)CIPHER_BYTES) : bytes;
}

bool fg_http_answer_hold(struct fg_http_request *req)
{
    struct fg_budget *budget = req->conn->owner->lent.answers;
    uint64_t bytes = answer_memory(req);

    if (budget != NULL && req->out.cap > HTTP_SMALL_BYTES) {
        if (!fg_budget_take_any(budget, bytes)) {
            fg_log_warn("response replaced by 503: answer_memory_max_bytes exhausted",
                        fg_ls("peer", req->conn->peer), fg_lu("size_bytes", req->out.len));
            fg_http_stats_event(req->conn->owner->stats, HTTP_ANSWER_NO_MEMORY);
            return false;
        }
        req->answer_paid = true;
    }
    req->answer_bytes = bytes;
    req->conn->held_bytes += bytes;
    return true;
}

void fg_http_answer_shrink(struct fg_http_request *req)
{
    uint64_t before = req->answer_bytes, bytes = FG_MIN(answer_memory(req), before);

    if (req->answer_paid)
        fg_budget_give(req->conn->owner->lent.answers, before - bytes);
    req->answer_bytes = bytes;
    req->conn->held_bytes -= before - bytes;
}

void fg_http_answer_release(struct fg_http_request *req)
{
    if (req->answer_paid)
        fg_budget_give(req->conn->owner->lent.answers, req->answer_bytes);
    fg_assert(req->conn->held_bytes >= req->answer_bytes);
    req->conn->held_bytes -= req->answer_bytes;
    req->answer_bytes = 0;
    req->answer_paid = false;
}

/* --- readers --- */

/* Ends the window if it is over, and begins the next one. ret_slow: the speed in it was below
 * the least one. */
static void end_window(struct fg_http_pace *pace, int64_t window_ns, uint64_t min_per_s,
                       uint64_t taken_bytes, int64_t now_mono_ns, bool *ret_slow)
{
    int64_t took_ns = now_mono_ns - pace->since_mono_ns;
    double least = (double)min_per_s * ((double)took_ns / (double)FG_SECOND_NS);

    if (pace->since_mono_ns != 0 && took_ns <= window_ns)
        return;
    if (pace->since_mono_ns != 0)
        *ret_slow = (double)(taken_bytes - pace->taken_bytes) < FG_MAX(least, 1.0);
    *pace = (struct fg_http_pace){now_mono_ns, taken_bytes};
}

bool fg_http_reader_too_slow(struct fg_http_reader *reader, struct fg_http_loop *owner,
                             uint64_t taken_bytes, int64_t now_mono_ns)
{
    const struct fg_http_config *config = &owner->config;
    uint64_t min_per_s = config->answer_min_per_s;
    bool slow = false;

    end_window(&reader->moment, MOMENT_NS, min_per_s, taken_bytes, now_mono_ns, &reader->stalled);
    end_window(&reader->pace, config->write_timeout_ns, min_per_s, taken_bytes, now_mono_ns, &slow);
    if (slow)
        fg_http_stats_event(owner->stats, HTTP_READER_SLOW);
    else if (owner->pressed && reader->stalled)
        fg_http_stats_event(owner->stats, HTTP_READER_STALLED);
    return slow || (owner->pressed && reader->stalled);
}
