/*
 * container: a node's container, run by docker, podman or apptainer on the node's host. rhrun sends one /bin/sh script
 * that runs before the agent starts (transport_host.wrap). The script finds the container by its name, makes or starts
 * it if that is allowed, and replaces itself by a shell inside the container. So the agent, and everything that it
 * starts, is inside. The agent's ledger and the user's home are mounted from the host at the same paths, and survive
 * the container.
 *
 * The script calls the runtime two or three times per connection. It is made from the spec's values, each quoted for
 * /bin/sh, and holds no secret: everybody on the host can read the script while it runs.
 */
#ifndef RHRUN_CONTAINER_H
#define RHRUN_CONTAINER_H

#include "rhrun/base.h"

struct spec_host;

/* Which container: a job has one per node. The container's name also has the user's numeric id, which only the host
 * knows. */
struct container_place {
    const struct spec_host *host; /* one that has a container */
    const char *job;              /* job id, 16 hex digits */
    uint32_t node;
};

/* Appends the script to ret. may_make: the script may pull the image, and make or start the container. It makes the
 * container anew if the container's spec differs or the image's name now means another image. While something of rhrun
 * runs inside, a differing spec is an error, and the container of a moved image stays. Without may_make (for commands
 * that only look, or stop) nothing changes: the script enters a running container of that name, whatever spec made it;
 * if none runs, the shell is the host's own. The image that the agent reports (facts.image) is the one that the job
 * would work in: the image that the name means now, except while something of rhrun runs in the container; then it is
 * the container's own image. */
void container_wrap(const struct container_place *place, bool may_make, struct buf *ret);

/* A /bin/sh script that runs the shell text `text` inside the container, if the container runs. folder: where it runs;
 * NULL: the container's default folder. terminal: stdin is a terminal. */
void container_enter(const struct container_place *place, bool terminal, const char *folder,
                     const char *text, struct buf *ret);

/* A /bin/sh script that ends the container with everything in it, and removes it. It prints one line, CONTAINER_GONE or
 * CONTAINER_WAS_GONE; or it says on stderr why it could not, and exits with a status other than 0. */
void container_down(const struct container_place *place, struct buf *ret);
#define CONTAINER_GONE "removed"
#define CONTAINER_WAS_GONE "not there"

#endif
