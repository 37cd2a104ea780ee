#include "common/base/time.h"
#include "distributor/upload_impl.h"

#include <stdlib.h>

static void init(const struct dist_upload *upload, struct dist_upload_account *account,
                 struct fg_slice tenant)
{
    account->tenant = tenant;
    account->limits = fg_tenants_limits(upload->distributor->tenants, tenant);
    account->rate_limit = upload->forwards ? fg_rate_limit_of_forwards(&account->limits->values)
                                           : fg_rate_limit_of_pushes(&account->limits->values);
}

void dist_upload_open_accounts(struct dist_upload *upload)
{
    init(upload, &upload->account, upload->tenant);
}

struct dist_upload_account *dist_upload_account_of(struct dist_upload *upload,
                                                   struct fg_slice tenant)
{
    struct dist_upload_account *account = &upload->account;

    while (!fg_slice_eq(account->tenant, tenant)) {
        if (account->next_account == NULL) {
            account->next_account = fg_new(struct dist_upload_account);
            init(upload, account->next_account, tenant);
        }
        account = account->next_account;
    }
    return account;
}

void dist_upload_close_accounts(struct dist_upload *upload)
{
    while (upload->account.next_account != NULL) {
        struct dist_upload_account *account = upload->account.next_account;

        upload->account.next_account = account->next_account;
        fg_limits_unref(account->limits);
        free(account);
    }
    fg_limits_unref(upload->account.limits);
}

static enum fg_code ask_limits(const struct dist_upload *upload,
                               struct dist_upload_account *account, uint64_t bytes,
                               struct fg_err *err)
{
    struct distributor *distributor = upload->distributor;
    const struct fg_quota_limit *quota = &account->limits->quota;

    /* The quota once for an upload: what it brings counts when it is stored. */
    if (quota->bytes > 0 && account->use.quota.span.end_s == 0 &&
        fg_quotas_check(distributor->quotas, account->tenant, quota, upload->now_ns,
                        &account->use.quota, err) != FG_OK) {
        account->use.over_quota = true;
        return err->code;
    }
    return fg_rates_take(upload->rates, account->tenant, &account->rate_limit, bytes,
                         fg_mono_ns(distributor->clock), &account->use.rate_used, err);
}

enum fg_code dist_upload_pay(const struct dist_upload *upload, struct dist_upload_account *account,
                             uint64_t bytes, struct fg_err *err)
{
    uint32_t number = account->next++;

    /* A later attempt decodes profiles again that have paid already. */
    if (number < account->n_admitted)
        return FG_OK;
    /* Later profiles are refused as well, even small ones: else the rate would let through the
     * small profiles of a large upload, by chance of their order. */
    if (account->refuses)
        return fg_fail(err, FG_E_LIMIT,
                       "push rate limit exceeded by earlier profiles of this upload");
    if (ask_limits(upload, account, bytes, err) != FG_OK) {
        account->refuses = true;
        return err->code;
    }
    account->n_admitted++;
    return FG_OK;
}

void dist_upload_count_stored(const struct dist_upload *upload)
{
    const struct dist_upload_account *account = &upload->account;

    for (; account != NULL; account = account->next_account)
        if (account->limits->quota.bytes > 0 && account->stored_bytes > 0)
            fg_quotas_add(upload->distributor->quotas, account->tenant, &account->limits->quota,
                          account->stored_bytes, upload->now_ns);
}

const struct dist_upload_account *dist_upload_refusing_account(const struct dist_upload *upload)
{
    const struct dist_upload_account *account = &upload->account;

    while (account != NULL && !account->refuses && account->use.retry_after_s == 0)
        account = account->next_account;
    return account;
}

void dist_upload_tell_limits(const struct dist_upload *upload)
{
    const struct dist_upload_account *account = dist_upload_refusing_account(upload);
    struct dist_limit_use use;

    if (account == NULL)
        account = &upload->account;
    use = account->use;
    /* A sender that waits until one tenant may send again keeps back what the others send. */
    if (upload->splits && (upload->err.code == FG_OK || upload->n_items > 0))
        use.over_quota = false;
    dist_limit_headers(upload->req, account->limits, &account->rate_limit, &use, upload->now_ns);
}
