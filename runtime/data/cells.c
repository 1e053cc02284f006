/* cells.c - what a cell of a table holds: a number, a date, a mark for a missing value, or text.
 *
 * Numerics  Numbers have a decimal point in every locale, and the bits that strtod gives them. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/data/table.h"

const char *const ot_date_part[OT_TIME_PARTS] = { "year", "month", "day", "weekday", "hour" };

/* ---- numbers --------------------------------------------------------------------------- */

/* Decimal digits, a point and a small exponent: the product of two exact numbers is rounded once, as strtod does
 * (W. D. Clinger, How to read floating point numbers accurately, 1990).  false: strtod must look. */
static bool short_number(const char *s, double *v)
{
    static const double ten[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    bool minus = *s == '-', any = false;
    uint64_t m = 0;
    int count = 0, power = 0;
    s += *s == '-' || *s == '+';
    for (; *s >= '0' && *s <= '9'; s++, any = true) m = m * 10 + (uint64_t)(*s - '0'), count += m > 0;
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++, any = true, power--) m = m * 10 + (uint64_t)(*s - '0'), count += m > 0;
    if (!any || count > 15) return false;
    if (*s == 'e' || *s == 'E') {
        bool less = s[1] == '-';
        int e = 0;
        s += 1 + (s[1] == '-' || s[1] == '+');
        if (*s < '0' || *s > '9') return false;
        for (; *s >= '0' && *s <= '9' && e < 1000; s++) e = e * 10 + (*s - '0');
        power += less ? -e : e;
    }
    if (*s || power < -22 || power > 22) return false;
    double x = power < 0 ? (double)m / ten[-power] : (double)m * ten[power];
    *v = minus ? -x : x;
    return true;
}

bool ot_cell_number(const char *s, locale_t point, double *v)
{
    char *end;
    if (short_number(s, v)) return true;
    if (!*s || strpbrk(s, "xX(")) return false; /* no hexadecimal, no nan(...) */
    *v = strtod_l(s, &end, point);
    return !*end && end != s;
}

static const char digit[] = "0123456789";

/* Characters of 1.268 or 12.500.000, before anything else; 0: other text. */
static size_t groups(const char *s)
{
    size_t n = strspn(s, digit);
    if (!n || n > 3 || *s == '0' || s[n] != '.') return 0;
    while (s[n] == '.') {
        if (strspn(s + n + 1, digit) != 3) return 0;
        n += 4;
    }
    return n;
}

bool ot_cell_grouped(const char *s)
{
    s += *s == '-' || *s == '+';
    size_t n = groups(s);
    return n && (!s[n] || (s[n] == ',' && s[n + 1] && !s[n + 1 + strspn(s + n + 1, digit)]));
}

ot_comma ot_cell_comma(const char *s)
{
    if (ot_cell_grouped(s)) return strchr(s, ',') ? OT_COMMA_DECIMAL : OT_COMMA_NONE;
    s += *s == '-' || *s == '+';
    size_t front = strspn(s, digit), behind = s[front] == ',' ? strspn(s + front + 1, digit) : 0;
    const char *rest = s + front + 1 + behind;
    if (!front || !behind) return OT_COMMA_NONE;
    if ((*rest == 'e' || *rest == 'E') && strspn(rest + 1, "+-") < 2) {
        rest += 1 + strspn(rest + 1, "+-");
        return *rest && !rest[strspn(rest, digit)] ? OT_COMMA_DECIMAL : OT_COMMA_NONE;
    }
    if (*rest) return OT_COMMA_NONE;
    return behind == 3 && front <= 3 && *s != '0' ? OT_COMMA_THOUSAND : OT_COMMA_DECIMAL;
}

bool ot_is_whole(double v) { return v == floor(v) && fabs(v) < 0x1p53; }

bool ot_cell_whole(const char *s, double v) { return ot_is_whole(v) && !strpbrk(s, ".eE"); }

/* ---- dates ----------------------------------------------------------------------------- */

/* Days since 1970-01-01 in the Gregorian calendar, and back: Howard Hinnant's algorithms, by eras of 400 years from
 * March. */
static int64_t days_of(int64_t y, int m, int d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, of = y - era * 400;
    int64_t day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + of * 365 + of / 4 - of / 100 + day - 719468;
}

void ot_date_parts(double days, double part[OT_TIME_PARTS])
{
    int64_t whole = (int64_t)floor(days), z = whole + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t of = z - era * 146097, y = (of - of / 1460 + of / 36524 - of / 146096) / 365;
    int64_t day = of - (365 * y + y / 4 - y / 100), m = (5 * day + 2) / 153;
    int64_t month = m < 10 ? m + 3 : m - 9, weekday = (whole + 3) % 7;
    part[0] = (double)(y + era * 400 + (month <= 2));
    part[1] = (double)month;
    part[2] = (double)(day - (153 * m + 2) / 5 + 1);
    part[3] = (double)(weekday < 0 ? weekday + 7 : weekday);
    part[4] = (days - (double)whole) * 24;
}

/* n digits as a number in least..most; -1: other text. */
static int digits(const char **s, int n, int least, int most)
{
    int v = 0;
    for (int i = 0; i < n; i++, (*s)++) {
        if (**s < '0' || **s > '9') return -1;
        v = v * 10 + (**s - '0');
    }
    return v >= least && v <= most ? v : -1;
}

static bool take(const char **s, char c)
{
    if (**s != c) return false;
    (*s)++;
    return true;
}

/* Seconds of "HH:MM[:SS[.fff]]". */
static bool time_of(const char **s, double *seconds)
{
    int h = digits(s, 2, 0, 24), m = take(s, ':') ? digits(s, 2, 0, 59) : -1, sec = 0;
    double part = 0, unit = 1;
    if (h < 0 || m < 0) return false;
    if (take(s, ':') && (sec = digits(s, 2, 0, 60)) < 0) return false;
    if (take(s, '.'))
        for (; **s >= '0' && **s <= '9'; (*s)++) part += (**s - '0') * (unit /= 10);
    *seconds = h * 3600.0 + m * 60.0 + sec + part;
    return *seconds <= 86400;
}

/* "Z", "+HH:MM", "-HHMM", "+HH" as seconds east of Greenwich. */
static bool zone_of(const char **s, double *east)
{
    *east = 0;
    if (take(s, 'Z') || !**s) return true;
    int sign = take(s, '+') ? 1 : take(s, '-') ? -1 : 0, h = sign ? digits(s, 2, 0, 23) : -1, m = 0;
    if (h < 0) return false;
    if (take(s, ':') || **s) m = digits(s, 2, 0, 59);
    *east = sign * (h * 3600.0 + m * 60.0);
    return m >= 0;
}

/* ISO 8601: a day, and perhaps a time.  OT_CELL_TEXT: it is none. */
static ot_cell date_of(const char *s, double *v)
{
    static const int length[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    double seconds = 0, east = 0;
    int y = digits(&s, 4, 0, 9999), m = y >= 0 && take(&s, '-') ? digits(&s, 2, 1, 12) : -1;
    int d = m > 0 && take(&s, '-') ? digits(&s, 2, 1, length[m - 1]) : -1;
    if (d < 0 || (m == 2 && d == 29 && (y % 4 || (y % 100 == 0 && y % 400)))) return OT_CELL_TEXT;
    *v = (double)days_of(y, m, d);
    if (!*s) return OT_CELL_DATE;
    if (*s != 'T' && *s != ' ') return OT_CELL_TEXT;
    s++;
    if (!time_of(&s, &seconds) || !zone_of(&s, &east) || *s) return OT_CELL_TEXT;
    *v += (seconds - east) / 86400;
    return OT_CELL_TIME;
}

/* ---- all ------------------------------------------------------------------------------- */

static bool is_null(const char *s)
{
    static const char *const mark[] = { "null", "None", "N/A", "#N/A", "<NA>" };
    for (int i = 0; i < OT_LEN(mark); i++)
        if (!strcasecmp(s, mark[i])) return true;
    return false;
}

ot_cell ot_cell_of(const char *s, locale_t point, double *v)
{
    *v = NAN;
    if (!*s || !strcmp(s, "?") || !strcmp(s, "NA")) return OT_CELL_MISSING;
    if (ot_cell_number(s, point, v)) {
        bool code = s[0] == '0' && s[1] >= '0' && s[1] <= '9' && !s[strspn(s, "0123456789")];
        return isnan(*v) ? OT_CELL_NAN : code ? OT_CELL_CODE : OT_CELL_NUMBER;
    }
    if (is_null(s)) return OT_CELL_NULL;
    if (!strcasecmp(s, "true") || !strcasecmp(s, "false")) {
        *v = *s == 't' || *s == 'T';
        return OT_CELL_BOOLEAN;
    }
    return *s >= '0' && *s <= '9' ? date_of(s, v) : OT_CELL_TEXT;
}
