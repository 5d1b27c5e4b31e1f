/* Pieces of JSON, with a comma after an earlier piece. */
#include "internal.h"

#include <string.h>

static void comma(struct buf *b)
{
    if (b->len && b->data[b->len - 1] != '{' && b->data[b->len - 1] != '[' && b->data[b->len - 1] != ':')
        buf_putc(b, ',');
}

static void put_key(struct buf *b, const char *key)
{
    comma(b);
    if (!key)
        return;
    buf_json_string(b, key, strlen(key));
    buf_putc(b, ':');
}

void json_text(struct buf *b, const char *key, const char *value)
{
    put_key(b, key);
    if (value)
        buf_json_string(b, value, strlen(value));
    else
        buf_puts(b, "null");
}

void json_number(struct buf *b, const char *key, uint64_t value)
{
    put_key(b, key);
    buf_printf(b, "%llu", (unsigned long long)value);
}

void json_bool(struct buf *b, const char *key, bool value)
{
    put_key(b, key);
    buf_puts(b, value ? "true" : "false");
}

void json_begin(struct buf *b, const char *key, char bracket)
{
    put_key(b, key);
    buf_putc(b, bracket);
}

void json_item_text(struct buf *b, const char *value)
{
    json_text(b, NULL, value);
}

void json_item_number(struct buf *b, uint64_t value)
{
    json_number(b, NULL, value);
}

void json_item_rank(struct buf *b, uint32_t value)
{
    comma(b);
    if (value == REPORT_NO_RANK)
        buf_puts(b, "-1");
    else
        buf_printf(b, "%u", value);
}
