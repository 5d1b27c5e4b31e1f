/*
 * Foreign text on its way to a terminal: text and colours (SGR) pass. Every other control character is removed, with
 * the sequence that it begins; also those of C1 (U+0080 to U+009F) and bytes that are not UTF-8: a terminal may take
 * them for a cursor movement, a title, or a question whose answer it types. The text may come in pieces of any size.
 */
#include "internal.h"

#include <string.h>

/* The length of the character that begins with c; 0: no character does. */
static unsigned length_of(unsigned char c)
{
    return c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
}

/* The held character is complete: passes it on, unless it is a control character or invalid. */
static void end_character(struct screen *s, struct buf *b)
{
    const unsigned char *c = s->held;
    bool control = c[0] == 0xc2 && c[1] < 0xa0;
    bool wrong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
                 (c[0] == 0xf4 && c[1] > 0x8f);
    if (control && c[1] == 0x9b) /* CSI; a colour in this form is dropped */
        s->at = SCREEN_CSI;
    else if (control && (c[1] == 0x90 || c[1] == 0x98 || c[1] >= 0x9d)) /* DCS, SOS, OSC, PM, APC */
        s->at = SCREEN_STRING;
    else if (!control && !wrong)
        buf_append(b, s->held, s->held_len);
    s->odd = true;
    s->held_len = 0;
}

static void end_csi(struct screen *s, struct buf *b, unsigned char c)
{
    if (c == 'm' && !s->odd && s->color) {
        s->held[s->held_len++] = c;
        buf_append(b, s->held, s->held_len);
        s->styled = !(s->held_len == 3 || (s->held_len == 4 && s->held[2] == '0'));
    }
    s->held_len = 0;
    s->at = SCREEN_TEXT;
}

static bool in_csi(struct screen *s, struct buf *b, unsigned char c)
{
    if (c < 0x20 || c >= 0x7f) { /* too long: it never ends */
        s->held_len = 0;
        s->at = SCREEN_TEXT;
        return false;
    }
    if (c >= 0x40)
        end_csi(s, b, c);
    else if (c >= '0' && c <= ';' && s->held_len < sizeof s->held - 1)
        s->held[s->held_len++] = c;
    else
        s->odd = true;
    return true;
}

static bool in_escape(struct screen *s, unsigned char c)
{
    s->at = SCREEN_TEXT;
    if (c == '[') {
        s->at = SCREEN_CSI;
        s->odd = false;
        memcpy(s->held, "\033[", 2);
        s->held_len = 2;
    } else if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_') {
        s->at = SCREEN_STRING;
    } else if (c >= 0x20 && c < 0x30) { /* ESC ( B */
        s->at = SCREEN_ESC;
    }
    return c >= 0x20 && c < 0x7f;
}

/* True: the byte was part of a sequence. */
static bool in_sequence(struct screen *s, struct buf *b, unsigned char c)
{
    switch (s->at) {
    case SCREEN_TEXT:
        return false;
    case SCREEN_ESC:
        return in_escape(s, c);
    case SCREEN_CSI:
        return in_csi(s, b, c);
    case SCREEN_STRING:
        if (c == '\n') /* not beyond the line: the end of the sequence may never come */
            s->at = SCREEN_TEXT;
        else if (c == '\a' || c == '\033')
            s->at = c == '\a' ? SCREEN_TEXT : SCREEN_ESC;
        return c != '\n';
    }
    return false;
}

void screen_put(struct screen *s, struct buf *b, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (in_sequence(s, b, c))
            continue;
        if (s->held_len && (c & 0xc0) == 0x80) {
            s->held[s->held_len++] = c;
            if (s->held_len == s->wanted)
                end_character(s, b);
            continue;
        }
        s->held_len = 0;
        if (c == '\033') {
            s->at = SCREEN_ESC;
        } else if (c == '\n') {
            screen_end(s, b);
            buf_putc(b, '\n');
        } else if (c >= 0x80) {
            s->wanted = length_of(c);
            s->held[0] = c;
            s->held_len = s->wanted ? 1 : 0;
        } else if ((c >= ' ' && c != 0x7f) || c == '\t' || (c == '\r' && s->returns)) {
            buf_putc(b, (char)c);
        }
    }
}

void screen_end(struct screen *s, struct buf *b)
{
    if (s->styled)
        buf_puts(b, "\033[0m");
    s->styled = false;
}

void text_for_screen(struct buf *b, const char *text, size_t len, bool color)
{
    struct screen s = {.color = color};
    for (const char *end; len && (end = memchr(text, '\n', len)); len -= (size_t)(end + 1 - text), text = end + 1)
        screen_put(&s, b, text, (size_t)(end - text));
    screen_put(&s, b, text, len);
    screen_end(&s, b);
}
