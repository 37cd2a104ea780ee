/*
 * Inside an upload (upload.h): what upload_profiles.c gives the profiles of a batch before upload.c
 * sends them: the size that they are billed for, a time that is within the tenant's window, and
 * their ids.
 *
 * Thread: the worker that decodes the upload.
 */
#ifndef FG_DISTRIBUTOR_UPLOAD_IMPL_H
#define FG_DISTRIBUTOR_UPLOAD_IMPL_H

#include "distributor/upload.h"

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

#endif
