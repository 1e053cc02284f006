/* number.c - parses and writes numbers. */
#include "runtime/base/base.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ot_number(const char *text, double *v)
{
    if (!*text || text[strspn(text, "+-.0123456789eE")]) return false; /* strtod accepts blanks, hex, nan, inf */

    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *end = NULL;
    *v = c ? strtod_l(text, &end, c) : strtod(text, &end);
    if (c) freelocale(c);
    return *end == '\0' && isfinite(*v);
}

const char *ot_number_text(double v, char text[OT_NUMBER_TEXT])
{
    snprintf(text, OT_NUMBER_TEXT, "%.15g", v);
    if (strtod(text, NULL) != v) snprintf(text, OT_NUMBER_TEXT, "%.17g", v);
    return text;
}
