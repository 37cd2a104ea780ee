/*
 * Inside an upload (upload.h), which upload.c moves on: what upload_profiles.c gives the profiles
 * of a batch before they are sent, and what upload_accounts.c takes for them from their tenants'
 * limits.
 *
 * Thread: the worker that decodes the upload, if nothing else is said.
 */
#ifndef FG_DISTRIBUTOR_UPLOAD_IMPL_H
#define FG_DISTRIBUTOR_UPLOAD_IMPL_H

#include "distributor/upload.h"

/* ---- profiles ---- */

/* Divides the size of the part at hand (dist_upload_measure()) among the profiles. FG_E_TOO_LARGE:
 * the workspace is full. */
enum fg_code dist_upload_set_sizes(const struct dist_upload *upload, struct fg_batch *batch,
                                   struct fg_err *err) fg_must_check;

/* Checks the times, and replaces those in 1970 with the time of arrival. FG_E_INVALID: a time is
 * outside the tenant's window. */
enum fg_code dist_upload_check_times(struct dist_upload *upload, struct fg_batch *batch,
                                     struct fg_err *err) fg_must_check;

/* Gives the profiles their ids, which follow from their times as well. has_time: as of
 * dist_upload_add(). */
void dist_upload_identify(struct dist_upload *upload, struct fg_batch *batch, bool has_time);

/* ---- accounts ---- */

/* Opens the account of the upload's tenant. The loop's, before anything is decoded. */
void dist_upload_open_accounts(struct dist_upload *upload);

/* Frees all accounts. The loop's, at the end. */
void dist_upload_close_accounts(struct dist_upload *upload);

/* Finds or adds the account of a tenant of the token, whose number is bounded. It lives until
 * dist_upload_close_accounts(). */
struct dist_upload_account *dist_upload_account_of(struct dist_upload *upload,
                                                   struct fg_slice tenant);

/* Takes bytes of a profile, or of a part of a batch, from the limits of its tenant; a later attempt
 * takes nothing for what has paid. FG_E_LIMIT: it is over one of them, as is all that follows. */
enum fg_code dist_upload_pay(const struct dist_upload *upload, struct dist_upload_account *account,
                             uint64_t bytes, struct fg_err *err) fg_must_check;

/* Returns the first account that refuses profiles; NULL: none does. Any thread, while no attempt is
 * decoded. */
const struct dist_upload_account *dist_upload_refusing_account(const struct dist_upload *upload);

/* Counts what was stored for the limits of a period. The loop's, at the end. */
void dist_upload_count_stored(const struct dist_upload *upload);

/* Tells the sender by headers what is left of its tenant's limits, or of those of the tenant that
 * refuses. The loop's, at the end. */
void dist_upload_tell_limits(const struct dist_upload *upload);

#endif
