/* jpeg.c - JPEG through libjpeg-turbo: baseline, progressive, arithmetic; grey, YCbCr, RGB, CMYK, YCCK.
 *
 * Numerics  the exact integer transform and triangle-filtered chroma, as Pillow.
 * Errors    most of libjpeg's warnings mean lost pixels, and are errors here. */
#include "runtime/picture/internal.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* Limit on scans of a progressive file: ten are usual.  Each goes over all pixels, however few bytes it has. */
enum { MOST_SCANS = 200 };

typedef struct jpeg {
    struct jpeg_decompress_struct z;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    ot_status status; /* error return */
    ot_reading *r;
} jpeg;

static jpeg *of(j_common_ptr z) { return z->client_data; }

static _Noreturn void leave(j_common_ptr z, ot_status s)
{
    of(z)->status = s;
    longjmp(of(z)->failed, 1);
}

static void give_up(j_common_ptr z)
{
    char text[JMSG_LENGTH_MAX];
    z->err->format_message(z, text);
    leave(z, z->err->msg_code == JERR_OUT_OF_MEMORY ? ot_picture_no_memory(of(z)->r)
                                                    : ot_picture_bad(of(z)->r, "%s", text));
}

static void warn(j_common_ptr z, int level)
{
    int code = z->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR) give_up(z);
}

static void say_nothing(j_common_ptr z) { (void)z; }

static void begin_source(j_decompress_ptr z) { (void)z; }

/* All bytes are in memory: libjpeg needs more only if the file is truncated. */
static boolean end_of_file(j_decompress_ptr z)
{
    ot_reading *r = of((j_common_ptr)z)->r;
    if (!z->output_scanline) leave((j_common_ptr)z, ot_picture_bad(r, "truncated after %zu bytes", r->n));
    leave((j_common_ptr)z,
          ot_picture_bad(r, "truncated after %zu bytes, in row %u of %u", r->n, z->output_scanline, z->image_height));
}

static void skip(j_decompress_ptr z, long n)
{
    if (n <= 0) return;
    if ((size_t)n > z->src->bytes_in_buffer) (void)end_of_file(z);
    z->src->next_input_byte += n;
    z->src->bytes_in_buffer -= (size_t)n;
}

static void count_scans(j_common_ptr z)
{
    if (((j_decompress_ptr)z)->input_scan_number > MOST_SCANS)
        leave(z, ot_picture_bad(of(z)->r, "more than %d scans", MOST_SCANS));
}

static void set_up(jpeg *j)
{
    j->z.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = give_up;
    j->errors.emit_message = warn;
    j->errors.output_message = say_nothing;
    j->z.client_data = j;
    jpeg_create_decompress(&j->z);
    j->source = (struct jpeg_source_mgr){ j->r->p,     j->r->n, begin_source, end_of_file, skip, jpeg_resync_to_restart,
                                          begin_source };
    j->progress.progress_monitor = count_scans;
    j->z.src = &j->source;
    j->z.progress = &j->progress;
}

static void read_rows(jpeg *j)
{
    bool inks = j->z.out_color_space == JCS_CMYK;
    size_t each = j->z.image_width * (size_t)j->r->out->channels;
    JSAMPROW inked =
        inks ? j->z.mem->alloc_large((j_common_ptr)&j->z, JPOOL_IMAGE, (size_t)j->z.image_width * 4) : NULL;
    while (j->z.output_scanline < j->z.output_height) {
        uint8_t *to = (uint8_t *)j->r->out->data + j->z.output_scanline * each;
        JSAMPROW row = inks ? inked : to;
        (void)jpeg_read_scanlines(&j->z, &row, 1);
        for (size_t x = 0; inks && x < j->z.image_width; x++) { /* inverted inks, as all writers since Adobe */
            uint8_t cmyk[4];
            for (int c = 0; c < 4; c++) cmyk[c] = (uint8_t)(255 - row[4 * x + (size_t)c]);
            ot_cmyk_to_rgb(cmyk, to + 3 * x);
        }
    }
}

static ot_status read_all(jpeg *j)
{
    jpeg_save_markers(&j->z, JPEG_APP0 + 1, 0xffff);
    (void)jpeg_read_header(&j->z, TRUE);
    for (jpeg_saved_marker_ptr m = j->z.marker_list; m && j->r->out->orientation == 1; m = m->next)
        j->r->out->orientation = ot_exif_orientation(m->data, m->data_length);
    J_COLOR_SPACE space = j->z.jpeg_color_space;
    bool grey = space == JCS_GRAYSCALE;
    OT_TRY(ot_picture_begin(j->r, j->z.image_width, j->z.image_height, grey ? 1 : 3, 8));
    if (!j->r->out->data) return OT_OK;
    j->z.out_color_space = grey ? JCS_GRAYSCALE : space == JCS_CMYK || space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
    (void)jpeg_start_decompress(&j->z);
    read_rows(j);
    (void)jpeg_finish_decompress(&j->z);
    return OT_OK;
}

static ot_status guarded(jpeg *j)
{
    if (setjmp(j->failed)) return j->status;
    set_up(j);
    return read_all(j);
}

ot_status ot_jpeg_read(ot_reading *r)
{
    jpeg j;
    memset(&j, 0, sizeof j);
    j.r = r;
    ot_status s = guarded(&j);
    jpeg_destroy_decompress(&j.z);
    return s;
}
