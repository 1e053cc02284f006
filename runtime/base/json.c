/* json.c - JSON that is built of texts of users and files, where memory may end. */
#include "runtime/base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/io.h"

json_t *ot_json_text(const char *s)
{
    json_t *j = json_string(s);
    size_t n = 4 * strlen(s) + 1; /* \xNN for every byte */
    char *shown = j ? NULL : malloc(n);
    if (shown) j = json_string(ot_shown(s, shown, n));
    free(shown);
    return j;
}

static void keep(json_t **to, bool good)
{
    if (good || !*to) return;
    json_decref(*to);
    *to = NULL;
}

ot_status ot_json_parse_or(const char *text, size_t n, json_t **out, json_error_t *why)
{
    *out = json_loadb(text, n, 0, why);
    if (!*out) *out = json_loadb(text, n, 0, why); /* jansson calls a string that it has no memory for invalid */
    bool lost =
        !*out && (!*why->text || json_error_code(why) == json_error_out_of_memory); /* of a number it says nothing */
    return lost ? OT_E_NOMEM : OT_OK;
}

ot_status ot_json_parse(const char *text, size_t n, json_t **out)
{
    json_error_t ignored;
    return ot_json_parse_or(text, n, out, &ignored);
}

ot_status ot_json_utf8(const char *text, size_t n, json_t **out)
{
    uint32_t c;
    *out = json_stringn(text, n);
    for (size_t i = 0; !*out && i < n;) {
        int bytes = ot_utf8(text + i, n - i, &c);
        if (!bytes) return OT_E_DATA;
        i += (size_t)bytes;
    }
    return *out ? OT_OK : OT_E_NOMEM;
}

void ot_json_set(json_t **to, const char *key, json_t *v) { keep(to, !json_object_set_new(*to, key, v)); }

void ot_json_add(json_t **to, json_t *v) { keep(to, !json_array_append_new(*to, v)); }

void ot_json_real(json_t **to, const char *key, double v)
{
    if (isfinite(v)) {
        ot_json_set(to, key, json_real(v));
        return;
    }
    json_t *before = json_object_get(*to, "nonfinite"), *bad = before ? json_copy(before) : json_object();
    ot_json_set(&bad, key, json_string(isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"));
    ot_json_set(to, "nonfinite", bad);
    ot_json_set(to, key, json_null());
}

json_t *ot_json_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static int print_part(const char *part, size_t n, void *stream) { return fwrite(part, 1, n, stream) == n ? 0 : -1; }

char *ot_json_dump(const json_t *v, size_t flags)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = v ? open_memstream(&text, &size) : NULL;
    if (!f) return NULL;
    bool good = !json_dump_callback(v, print_part, f, flags);
    if (ot_memstream_close(f) && good) return text;
    free(text);
    return NULL;
}
