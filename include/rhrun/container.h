/*
 * container: a node's container, run by docker, podman or apptainer where the node is. What rhrun says there is one
 * text for /bin/sh that goes in front of the agent's start (transport_host.wrap): it finds the container by its name,
 * makes or starts it where that is allowed, and hands its shell on. So the agent, and all that it starts, is inside;
 * its ledger and the user's home are mounted from the node, at the same paths, and survive the container.
 *
 * The text costs two or three calls of the runtime per connection. It is made of the spec's values, each quoted as
 * /bin/sh takes it, and holds no secret: everybody on the node can read it while it runs.
 */
#ifndef RHRUN_CONTAINER_H
#define RHRUN_CONTAINER_H

#include "rhrun/base.h"

struct spec_host;

/* Which container: a job has one per node, and the name has the user's number too, which only the node knows. */
struct container_place {
    const struct spec_host *host; /* with a container */
    const char *job;              /* its id, 16 hex */
    uint32_t node;
};

/* may_make: make it, start it or pull its image, and make it anew where it is of another spec or its image has
 * moved, unless something of rhrun runs in it. Else the container of that name is entered as it is, whatever spec it
 * is of; where none runs, the shell is the node's own, outside of it: what only looks, or stops, changes nothing.
 * The image that is told (facts.image) is the one that the job would work in: where that name has another one than
 * the container that is entered, the name's, unless something of rhrun runs in the container. Appends to ret. */
void container_wrap(const struct container_place *place, bool may_make, struct buf *ret);

/* A text for /bin/sh that ends in a program inside of the container, where that runs: `text` as /bin/sh does it, in
 * folder (NULL: in its first one). terminal: stdin is one. */
void container_enter(const struct container_place *place, bool terminal, const char *folder,
                     const char *text, struct buf *ret);

/* Ends the container with all that runs in it, and removes it: a text for /bin/sh that prints one line, CONTAINER_GONE
 * or CONTAINER_WAS_GONE, or says on stderr why it could not, and then exits with another status than 0. */
void container_down(const struct container_place *place, struct buf *ret);
#define CONTAINER_GONE "removed"
#define CONTAINER_WAS_GONE "not there"

#endif
