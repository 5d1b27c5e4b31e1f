/* report's private parts. */
#ifndef RHRUN_REPORT_INTERNAL_H
#define RHRUN_REPORT_INTERNAL_H

#include "rhrun/report.h"

/* json.c. Members of an object: after a comma, except at the beginning of an object or array. */
void json_text(struct buf *b, const char *key, const char *value); /* NULL: null */
void json_number(struct buf *b, const char *key, uint64_t value);
void json_bool(struct buf *b, const char *key, bool value);
void json_begin(struct buf *b, const char *key, char bracket); /* key NULL: an item of an array */
void json_item_text(struct buf *b, const char *value);
void json_item_number(struct buf *b, uint64_t value);
void json_item_rank(struct buf *b, uint32_t value); /* REPORT_NO_RANK: -1 */

/* data.c, curves.c */
void put_curves(const struct report_run *run, struct buf *b);

#endif
