/* What the two files of loop share. Every handle struct begins with its uv handle, whose data is NULL once its
 * owner has destroyed it: the struct is freed by the close callback alone. */
#ifndef RHRUN_LOOP_INTERNAL_H
#define RHRUN_LOOP_INTERNAL_H

#include "rhrun/loop.h"

#include <uv.h>

struct loop {
    uv_loop_t uv;
    struct loop_capture *captures; /* captures that are not done yet */
};

void loop_handle_close(uv_handle_t *handle); /* uv_close, then free */
void loop_captures_drop(struct loop *loop);

#endif
