/* The last output of a worker, as bytes while it runs and as text for people at its end. */
#include "super.h"

#include <string.h>

void tail_add(struct tail *t, const uint8_t *data, size_t len)
{
    if (len > sizeof t->data) {
        data += len - sizeof t->data;
        len = sizeof t->data;
        t->cut = true;
    }
    size_t over = t->len + len > sizeof t->data ? t->len + len - sizeof t->data : 0;
    if (over) {
        memmove(t->data, t->data + over, t->len - over);
        t->len -= over;
        t->cut = true;
    }
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

/* Length of the terminal escape sequence at s (s[0] is ESC). */
static size_t escape_len(const uint8_t *s, size_t left)
{
    if (left < 2)
        return left;
    if (s[1] == ']') { /* OSC: up to BEL or ESC \ */
        size_t i = 2;
        while (i < left && s[i] != 7 && s[i] != 27 && s[i] != '\n')
            i++;
        return i < left && s[i] == 7 ? i + 1 : i < left && s[i] == 27 && i + 1 < left ? i + 2 : i;
    }
    if (s[1] != '[')
        return 2;
    size_t i = 2;
    while (i < left && s[i] >= 0x20 && s[i] <= 0x3F)
        i++;
    return i < left ? i + 1 : i;
}

void tail_format(const struct tail *t, char *out, size_t max)
{
    size_t i = 0, n = 0, line = 0;
    /* one byte of input may become one of output, so cutting the input to max - 1 is enough */
    if (t->len > max - 1)
        i = t->len - (max - 1);
    if (t->cut || i > 0) {
        const uint8_t *newline = memchr(t->data + i, '\n', t->len - i);
        if (newline && newline + 1 < t->data + t->len)
            i = (size_t)(newline + 1 - t->data);
    }
    while (i < t->len) {
        uint8_t c = t->data[i];
        size_t left = t->len - i;
        if (c == 27) {
            i += escape_len(t->data + i, left);
        } else if (c == '\r') { /* text that a progress bar overwrote does not matter */
            while (i < t->len && t->data[i] == '\r')
                i++;
            if (i < t->len && t->data[i] != '\n')
                n = line;
        } else if (c == '\n' || c == '\t') {
            out[n++] = (char)c;
            line = c == '\n' ? n : line;
            i++;
        } else if (c < 0x20 || c == 0x7F) {
            i++;
        } else {
            size_t len = utf8_length(t->data + i, left);
            if (!len)
                out[n++] = '?';
            else
                memcpy(out + n, t->data + i, len);
            n += len;
            i += len ? len : 1;
        }
    }
    out[n] = 0;
}
