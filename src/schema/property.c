/*
 * Unicode properties as ECMA-262 spells them (\p{Letter}, \p{Script=Greek}), in PCRE2's spelling, which has only the
 * short names of general categories.
 */
#include "internal.h"

#include <string.h>

static const char *const categories[][2] = {
    {"Letter", "L"},
    {"Cased_Letter", "L&"},
    {"LC", "L&"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Nonspacing_Mark", "Mn"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Open_Punctuation", "Ps"},
    {"Close_Punctuation", "Pe"},
    {"Initial_Punctuation", "Pi"},
    {"Final_Punctuation", "Pf"},
    {"Other_Punctuation", "Po"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Other", "C"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Surrogate", "Cs"},
    {"Private_Use", "Co"},
    {"Unassigned", "Cn"},
};

static const char *category(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(categories); i++)
        if (strlen(categories[i][0]) == len && memcmp(categories[i][0], name, len) == 0)
            return categories[i][1];
    return NULL;
}

/* The value after "NAME=", if the property has that name. */
static const char *value_of(const char *text, size_t len, const char *name, size_t *ret_len)
{
    size_t n = strlen(name);
    if (len <= n + 1 || memcmp(text, name, n) != 0 || text[n] != '=')
        return NULL;
    *ret_len = len - n - 1;
    return text + n + 1;
}

/* "p{NAME}" or "P{NAME}", without the backslash. */
static void put_property(struct buf *out, char letter, const char *name, size_t len)
{
    static const char *const kinds[][2] = {
        {"Script", "sc:"}, {"sc", "sc:"}, {"Script_Extensions", "scx:"}, {"scx", "scx:"}};
    size_t n;
    const char *value;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if ((value = value_of(name, len, kinds[i][0], &n))) {
            buf_printf(out, "%c{%s%.*s}", letter, kinds[i][1], (int)n, value);
            return;
        }
    if ((value = value_of(name, len, "General_Category", &n)) || (value = value_of(name, len, "gc", &n))) {
        name = value;
        len = n;
    }
    const char *known = category(name, len);
    if (len == strlen("Assigned") && memcmp(name, "Assigned", len) == 0) {
        letter = letter == 'p' ? 'P' : 'p';
        known = "Cn";
    }
    buf_printf(out, "%c{%.*s}", letter, known ? (int)strlen(known) : (int)len, known ? known : name);
}

void pattern_translate(const char *text, size_t len, struct buf *ret)
{
    for (size_t i = 0; i < len; i++) {
        buf_putc(ret, text[i]);
        if (text[i] != '\\' || i + 1 == len)
            continue;
        char letter = text[++i];
        const char *end = (letter == 'p' || letter == 'P') && i + 1 < len && text[i + 1] == '{'
                              ? memchr(text + i + 2, '}', len - i - 2)
                              : NULL;
        if (!end) {
            buf_putc(ret, letter);
            continue;
        }
        put_property(ret, letter, text + i + 2, (size_t)(end - text) - i - 2);
        i = (size_t)(end - text);
    }
}
