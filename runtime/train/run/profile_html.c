/* profile_html.c - writes the profile of a run into report.html. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/picture/draw.h"
#include "runtime/train/run/log.h"
#include "runtime/train/run/profile.h"

enum { MOST_BYTES = 64 << 20, SHOWN = 40 };

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static void text_cell(const json_t *o, const char *key, FILE *f)
{
    const char *s = json_string_value(json_object_get(o, key));
    fputs("<td style=\"text-align:left\">", f), ot_html_text(s ? s : "", f), fputs("</td>", f);
}

static void print_row(const json_t *r, double update, FILE *f)
{
    static const char *const times[] = { "ms", "forward_ms", "backward_ms", "update_ms" };
    const char *ceiling = json_string_value(json_object_get(r, "ceiling"));
    double ms = number(r, "ms");
    fputs("<tr>", f), text_cell(r, "node", f), text_cell(r, "operator", f);
    for (int i = 0; i < OT_LEN(times); i++) fprintf(f, "<td>%.3f</td>", number(r, times[i]));
    fprintf(f, "<td>%.1f</td><td>%.4g</td><td>%.4g</td>", update > 0 ? 100 * ms / update : 0.0,
            ms > 0 ? number(r, "flops") / ms / 1e6 : 0.0, ms > 0 ? number(r, "bytes") / ms / 1e6 : 0.0);
    fprintf(f, "<td>%.0f %% ", 100 * number(r, "share_of_ceiling"));
    ot_html_text(ceiling ? ceiling : "", f), fputs("</td>", f), text_cell(r, "kernels", f), fputs("</tr>\n", f);
}

static void print_section(const json_t *o, FILE *f)
{
    const json_t *list = json_object_get(o, "nodes");
    double update = number(o, "update_ms");
    fprintf(
        f,
        "<h2>Profile</h2>\n<p>%.3f ms per update, %.3f ms of them in kernels (mean of %.0f updates); measured ceilings "
        "of the machine: %.4g GFLOP/s, %.4g GB/s, %.4g GB/s in caches.</p>\n",
        update, number(o, "kernels_ms"), number(o, "updates"), number(o, "ceiling_flops_per_second") / 1e9,
        number(o, "ceiling_bytes_per_second") / 1e9, number(o, "ceiling_cached_bytes_per_second") / 1e9);
    fputs(
        "<table>\n<tr><th>node</th><th>operator</th><th>ms</th><th>forward</th><th>backward</th><th>update</th><th>%</th>"
        "<th>GFLOP/s</th><th>GB/s</th><th>of the ceiling</th><th>kernels</th></tr>\n",
        f);
    for (size_t i = 0; i < json_array_size(list) && i < SHOWN; i++) print_row(json_array_get(list, i), update, f);
    fputs("</table>\n", f);
    if (json_array_size(list) > SHOWN)
        fprintf(f, "<p>%zu more nodes are in profile.csv.</p>\n", json_array_size(list) - SHOWN);
}

void ot_profile_html(int folder, FILE *f)
{
    ot_error ignored = { 0 };
    void *bytes = NULL;
    size_t n = 0;
    int fd = openat(folder, "profile.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return;
    json_t *o = NULL;
    if (!ot_read_open(fd, "profile.json", MOST_BYTES, &bytes, &n, &ignored)) (void)ot_json_parse(bytes, n, &o);
    close(fd);
    free(bytes);
    if (json_is_object(o)) print_section(o, f);
    json_decref(o);
}
