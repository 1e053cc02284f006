/* status.c - errors: ot_fail keeps the first cause, ot_fail_more lists several. */
#include "runtime/base/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ELLIPSIS "\xE2\x80\xA6"

const char *ot_version(void) { return OT_VERSION; }

const char *ot_status_text(ot_status s)
{
    switch (s) {
#define X(code, number, text)                                                                      \
    case OT_##code: return text;
        OT_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

/* Ends a truncated text with an ellipsis, without cutting a UTF-8 character. */
static void elide(char *text, size_t cap)
{
    size_t at = cap - sizeof ELLIPSIS;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) at--;
    memcpy(text + at, ELLIPSIS, sizeof ELLIPSIS);
}

static bool is_full(const char *text, size_t len, size_t cap)
{
    const size_t e = sizeof ELLIPSIS - 1;
    return len + 8 >= cap && len >= e && !memcmp(text + len - e, ELLIPSIS, e);
}

OT_PRINTF(2, 0) static void append(ot_error *err, const char *fmt, va_list ap)
{
    size_t cap = sizeof err->text, len = strnlen(err->text, cap - 1);
    if (is_full(err->text, len, cap)) return;
    if (len && len + 1 < cap) err->text[len++] = '\n';
    int n = ot_vtext(err->text + len, cap - len, fmt, ap);
    if (n < 0) err->text[len] = 0;
    else if ((size_t)n >= cap - len) elide(err->text, cap);
}

ot_status ot_fail(ot_error *err, ot_status s, const char *fmt, ...)
{
    if (!err) return s;
    if (err->status != OT_OK) return err->status;
    va_list ap;
    va_start(ap, fmt);
    err->status = s;
    err->text[0] = 0;
    append(err, fmt, ap);
    va_end(ap);
    return s;
}

ot_status ot_failed_call(int error) { return error == ENOMEM ? OT_E_NOMEM : OT_E_IO; }

ot_status ot_fail_more(ot_error *err, ot_status s, const char *fmt, ...)
{
    if (!err) return s;
    va_list ap;
    va_start(ap, fmt);
    if (err->status == OT_OK) {
        err->status = s;
        err->text[0] = 0;
    }
    append(err, fmt, ap);
    va_end(ap);
    return err->status;
}
