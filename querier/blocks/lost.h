/*
 * What a question leaves out, since it cannot be read: damaged and lost objects, and, where the
 * bucket is away, those that are in no cache. The first try of an errand finds out (lost_add()) and
 * fails; blocks_leave_out() says whether the next one does without, and what is asked below says
 * of what.
 *
 * Merged nodes cost nothing: what they are made of is read in their place, and the answer is
 * complete. Profiles do: without partial=true the question fails with 503, and with it the answer
 * says what it lacks. Damage is as large as what is left out: a part (of a service) where the
 * object's directory is whole, else the object.
 *
 * Thread: the question's, but as said.
 */
#ifndef FG_QUERIER_BLOCKS_LOST_H
#define FG_QUERIER_BLOCKS_LOST_H

#include "querier/blocks/impl.h"

/* Makes an empty list, unless there is one. */
void lost_open(struct question *question);

/* Adds what this try could not read. part NULL: the object as a whole. nodes: it is merged nodes,
 * of the part, or those that come with the directory. err: why, naming the object. Any thread. */
void lost_add(struct question *question, const struct object *object, const struct part *part,
              bool nodes, const struct fg_err *err);

/* Is all of the object left out; are merged nodes not to be read with its directory; those of a
 * part not at all? */
bool lost_object(const struct question *question, const struct object *object);
bool lost_head(const struct question *question, const struct object *object);
bool lost_nodes(const struct question *question, const struct part *part);

/* Is the object, or a part of it, left out? Then the answer says that it lacks it. */
bool lost_lacks_object(struct question *question, const struct object *object);
bool lost_lacks_part(struct question *question, const struct object *object, uint32_t part);

#endif
