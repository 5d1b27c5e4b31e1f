/* Money and dates: exact, in one form. */
#include "internal.h"

#include <ctype.h>
#include <string.h>

enum { MICRO = 1000000, WHOLE_DIGITS_MAX = 9, FRACTION_DIGITS_MAX = 20 };

bool catalog_parse_usd(const char *text, uint64_t *ret_microusd)
{
    uint64_t micro = 0;
    size_t whole = strspn(text, "0123456789");
    if (whole < 1 || whole > WHOLE_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < whole; i++)
        micro = micro * 10 + (uint64_t)(text[i] - '0');
    const char *fraction = text[whole] == '.' ? text + whole + 1 : "0";
    size_t digits = strspn(fraction, "0123456789");
    if (digits < 1 || digits > FRACTION_DIGITS_MAX || fraction[digits] || (text[whole] && text[whole] != '.'))
        return false;
    for (size_t i = 0; i < 6; i++)
        micro = micro * 10 + (i < digits ? (uint64_t)(fraction[i] - '0') : 0);
    *ret_microusd = micro + (digits > 6 && fraction[6] >= '5');
    return true;
}

void catalog_format_usd(uint64_t microusd, unsigned min_decimals, char ret[32])
{
    int len = snprintf(ret, 32, "%llu.%06u", (unsigned long long)(microusd / MICRO), (unsigned)(microusd % MICRO));
    for (unsigned decimals = 6; decimals > min_decimals && ret[len - 1] == '0'; decimals--)
        ret[--len] = 0;
    if (ret[len - 1] == '.')
        ret[len - 1] = 0;
}

/* Days since 1970-01-01 of a day of the Gregorian calendar, and back: Howard Hinnant, "chrono-compatible low-level date
 * algorithms". */
static uint32_t day_of(uint32_t y, uint32_t m, uint32_t d)
{
    y -= m <= 2;
    uint32_t era = y / 400, of_era = y - era * 400;
    uint32_t of_year = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of(uint32_t day, uint32_t *y, uint32_t *m, uint32_t *d)
{
    uint32_t z = day + 719468, era = z / 146097, of_era = z - era * 146097;
    uint32_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint32_t of_year = of_era - (365 * years + years / 4 - years / 100), mp = (5 * of_year + 2) / 153;
    *d = of_year - (153 * mp + 2) / 5 + 1;
    *m = mp < 10 ? mp + 3 : mp - 9;
    *y = years + era * 400 + (*m <= 2);
}

bool catalog_parse_date(const char *text, uint32_t *ret_day)
{
    uint32_t part[3] = {0}, y, m, d;
    if (strlen(text) != 10)
        return false;
    for (size_t i = 0, which = 0; i < 10; i++) {
        bool dash = i == 4 || i == 7;
        if (dash ? text[i] != '-' : !isdigit((unsigned char)text[i]))
            return false;
        which += dash;
        if (!dash)
            part[which] = part[which] * 10 + (uint32_t)(text[i] - '0');
    }
    if (part[0] < 2000 || part[0] > 2199 || part[1] < 1 || part[1] > 12 || part[2] < 1)
        return false;
    uint32_t day = day_of(part[0], part[1], part[2]);
    date_of(day, &y, &m, &d);
    if (y != part[0] || m != part[1] || d != part[2]) /* 31st of February */
        return false;
    *ret_day = day;
    return true;
}

void catalog_format_date(uint32_t day, char ret[32])
{
    uint32_t y, m, d;
    date_of(day, &y, &m, &d);
    snprintf(ret, 32, "%04u-%02u-%02u", (unsigned)y, (unsigned)m, (unsigned)d);
}
