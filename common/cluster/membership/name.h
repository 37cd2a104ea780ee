/*
 * Which names and zones members may have. Names are in stored objects, logs and pages, so they are
 * short and of harmless characters.
 */
#ifndef FG_COMMON_CLUSTER_MEMBERSHIP_NAME_H
#define FG_COMMON_CLUSTER_MEMBERSHIP_NAME_H

#include "common/base/slice.h"

enum { FG_MEMBER_NAME_MAX_BYTES = 128 };

/* Checks a member's name: 1 to 128 letters, digits and -._ Returns NULL if it is valid, else a text
 * such as "is empty". */
const char *fg_member_name_fault(struct fg_slice name) fg_must_check;

/* Checks a zone's name likewise; it may be empty. */
const char *fg_member_zone_fault(struct fg_slice zone) fg_must_check;

#endif
