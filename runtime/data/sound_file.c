/* sound_file.c - WAV and FLAC, by libsndfile.
 *
 * libsndfile reads many formats; what is not WAV (PCM, floats, A-law, µ-law) or FLAC by its first bytes does not reach it.  It
 * takes a WAV that is cut off as a shorter one, so the sizes of its chunks are checked before. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "runtime/data/sound.h"

bool ot_sound_name(const char *name)
{
    static const char *const end[] = { "wav", "wave", "flac" };
    const char *dot = strrchr(name, '.'), *slash = strrchr(name, '/');
    for (int i = 0; dot && dot > slash && i < OT_LEN(end); i++)
        if (!strcasecmp(dot + 1, end[i])) return true;
    return false;
}

/* ---- what a file is, from its first bytes ------------------------------------------------------ */

typedef enum kind { WAV, FLAC } kind;

static uint32_t le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* PCM, float, A-law, µ-law, or one of them by its long name. */
static bool is_plain(const uint8_t *fmt, uint32_t n)
{
    unsigned tag = n >= 2 ? fmt[0] | (unsigned)fmt[1] << 8 : 0;
    if (tag == 0xFFFE && n >= 26) tag = fmt[24] | (unsigned)fmt[25] << 8;
    return tag == 1 || tag == 3 || tag == 6 || tag == 7;
}

/* The chunks before the samples, and whether all of these are there. */
static ot_status check_wav(const uint8_t *p, size_t n, size_t size, bool *more, ot_error *err)
{
    bool known = false;
    for (size_t at = 12;;) {
        if (at + 8 > size) return ot_fail(err, OT_E_DATA, "the WAV file is truncated: it has no samples");
        if (at + 8 + 40 > n && n < size) {
            *more = true;
            return OT_OK;
        }
        uint32_t length = le32(p + at + 4);
        size_t left = size - at - 8, there = n - at - 8 < length ? n - at - 8 : length;
        if (!memcmp(p + at, "data", 4)) {
            bool unknown = length >= 0x7FFFF000; /* written by a program that could not go back */
            if (!known) return ot_fail(err, OT_E_DATA, "the WAV file has no description before its samples");
            if (!unknown && length > left)
                return ot_fail(err, OT_E_DATA, "the WAV file is truncated: it has %zu of %lu bytes of samples", left,
                               (unsigned long)length);
            return OT_OK;
        }
        if (!memcmp(p + at, "fmt ", 4)) {
            if (!(known = is_plain(p + at + 8, (uint32_t)there)))
                return ot_fail(
                    err, OT_E_DATA,
                    "the samples of the WAV file are compressed; supported: PCM, float, A-law, u-law (or FLAC)");
        }
        if (length > left) return ot_fail(err, OT_E_DATA, "the WAV file is truncated: it has no samples");
        at += 8 + length + (length & 1);
    }
}

static ot_status find_kind(const uint8_t *p, size_t n, size_t size, kind *out, bool *more, ot_error *err)
{
    *more = false;
    if (!size) return ot_fail(err, OT_E_DATA, "the file is empty");
    if (n >= 4 && !memcmp(p, "fLaC", 4)) {
        *out = FLAC;
        return OT_OK;
    }
    if (n < 12 || memcmp(p, "RIFF", 4) || memcmp(p + 8, "WAVE", 4))
        return ot_fail(err, OT_E_DATA, "is not a WAV or FLAC file");
    *out = WAV;
    return check_wav(p, n, size, more, err);
}

#ifdef OT_HAVE_SNDFILE
#include <pthread.h>
#include <sndfile.h>

/* ---- libsndfile --------------------------------------------------------------------------------- */

enum { BLOCK = 8192, PER_BYTE = 16 };
static const int64_t long_flac = INT64_C(1) << 28; /* values, which take about a second to read */

/* Constant samples take next to no bytes in FLAC, but as much time as others, at each use, because files are read whole. */
static bool is_mostly_constant(const SF_INFO *info, size_t size)
{
    int64_t n = info->frames, channels = info->channels;
    return n > long_flac / channels && n / PER_BYTE > (int64_t)size / channels;
}

typedef struct view {
    const uint8_t *bytes;
    sf_count_t n, size, at; /* bytes that are there, of the file */
    bool beyond;            /* bytes that are not there were needed */
} view;

typedef struct opened {
    view v;
    SNDFILE *f;
    ot_sound what;
} opened;

static sf_count_t view_length(void *user) { return ((view *)user)->size; }
static sf_count_t view_tell(void *user) { return ((view *)user)->at; }

static sf_count_t view_seek(sf_count_t offset, int whence, void *user)
{
    view *v = user;
    sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? v->at : v->size;
    if (offset < -from || offset > v->size - from) return -1;
    return v->at = from + offset;
}

static sf_count_t view_read(void *to, sf_count_t count, void *user)
{
    view *v = user;
    sf_count_t left = v->at < v->n ? v->n - v->at : 0, n = count < left ? count : left;
    v->beyond |= n < count && v->n < v->size;
    if (n <= 0) return 0;
    memcpy(to, v->bytes + v->at, (size_t)n);
    v->at += n;
    return n;
}

static sf_count_t view_write(const void *from, sf_count_t count, void *user)
{
    (void)from, (void)count, (void)user;
    return 0;
}

/* Opening a file writes variables of the whole library (its last error). */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static bool is_no_memory(const char *text) { return strstr(text, "malloc") || strstr(text, "FLAC decoder"); }

static void sound_close(opened *o)
{
    pthread_mutex_lock(&opening);
    (void)sf_close(o->f);
    pthread_mutex_unlock(&opening);
}

const char *ot_sound_missing(void) { return NULL; }

/* o stays where it is until it is closed. */
static ot_status sound_open(const uint8_t *bytes, size_t n, size_t size, opened *o, bool *more, ot_error *err)
{
    SF_VIRTUAL_IO io = { view_length, view_seek, view_read, view_write, view_tell };
    SF_INFO info = { 0 };
    char why[160] = "";
    kind k;
    OT_TRY(find_kind(bytes, n, size, &k, more, err));
    if (*more) return OT_OK;
    *o = (opened){ .v = { .bytes = bytes, .n = (sf_count_t)n, .size = (sf_count_t)size } };
    pthread_mutex_lock(&opening);
    o->f = sf_open_virtual(&io, SFM_READ, &info, &o->v);
    if (!o->f) snprintf(why, sizeof why, "%s", sf_strerror(NULL));
    pthread_mutex_unlock(&opening);
    const char *name = k == WAV ? "WAV" : "FLAC";
    *more = o->v.beyond && (!o->f || info.frames <= 0);
    ot_status s = OT_OK;
    if (*more) s = OT_OK;
    else if (!o->f && is_no_memory(why)) s = ot_fail(err, OT_E_NOMEM, "no memory to read the %s file", name);
    else if (!o->f) s = ot_fail(err, OT_E_DATA, "the %s file is damaged: %s", name, why);
    else if (info.frames <= 0 || info.frames == SF_COUNT_MAX) /* written to a pipe */
        s = ot_fail(err, OT_E_DATA, "the %s file has no samples, or does not say how many", name);
    else if (info.samplerate < 1 || info.channels < 1 || info.channels > OT_SOUND_CHANNELS)
        s = ot_fail(err, OT_E_DATA, "the %s file has %d channels at %d Hz; the limit is %d channels", name,
                    info.channels, info.samplerate, OT_SOUND_CHANNELS);
    else if (k == FLAC && is_mostly_constant(&info, size))
        s = ot_fail(
            err, OT_E_DATA,
            "the FLAC file has %lld samples per channel in %zu bytes, so nearly all of them are silence; cut that out "
            "(of files this long at most %d values per byte are read)",
            (long long)info.frames, size, PER_BYTE);
    o->what = (ot_sound){ info.frames, info.samplerate, info.channels };
    if ((s || *more) && o->f) sound_close(o);
    return s;
}

ot_status ot_sound_look(const uint8_t *bytes, size_t n, size_t size, ot_sound *out, bool *more, ot_error *err)
{
    opened o;
    OT_TRY(sound_open(bytes, n, size, &o, more, err));
    if (*more) return OT_OK;
    *out = o.what;
    sound_close(&o);
    return OT_OK;
}

/* n frames, the first of which is number `at` of the result. */
static bool put(const ot_sound_want *w, int have, const float *x, int64_t n, int64_t at, float *to)
{
    bool finite = true;
    for (int64_t i = 0; i < n; i++, x += have) {
        double mean = 0;
        for (int c = 0; c < have; c++) {
            mean += (double)x[c];
            finite &= isfinite(x[c]) != 0;
        }
        for (int c = 0; c < w->channels; c++) {
            float v = w->channels == have ? x[c] : (float)(mean / have);
            to[w->last ? (at + i) * w->channels + c : c * w->length + at + i] = v;
        }
    }
    return finite;
}

/* Frames from `from` on, of which `most` are wanted. */
static ot_status read_frames(opened *o, bool flac, const ot_sound_want *w, int64_t from, float *to, ot_error *err)
{
    float block[BLOCK];
    int64_t all = o->what.frames, most = all - from < w->length ? all - from : w->length, at = 0;
    int have = o->what.channels;
    if (!flac && from) at = sf_seek(o->f, from, SEEK_SET); /* in FLAC only reading shows damages before */
    while (at >= 0 && at < (flac ? all : from + most)) {
        int64_t n = sf_readf_float(o->f, block, BLOCK / have);
        if (n <= 0 || sf_error(o->f)) break;
        int64_t first = at > from ? at : from, end = at + n < from + most ? at + n : from + most;
        if (end > first && !put(w, have, block + (first - at) * have, end - first, first - from, to))
            return ot_fail(err, OT_E_DATA, "the file contains NaN or infinity");
        at += n;
    }
    if (at >= (flac ? all : from + most) && !sf_error(o->f)) return OT_OK;
    return ot_fail(err, OT_E_DATA, "the %s file is damaged or truncated: %lld of %lld samples per channel can be read",
                   flac ? "FLAC" : "WAV", (long long)(at < 0 ? 0 : at), (long long)all);
}

ot_status ot_sound_decode(const uint8_t *bytes, size_t n, const ot_sound_want *want, float *to, ot_error *err)
{
    opened o;
    bool more;
    OT_TRY(sound_open(bytes, n, n, &o, &more, err));
    int have = o.what.channels;
    ot_status s = OT_OK;
    if (want->channels != have && want->channels != 1 && have != 1)
        s = ot_fail(err, OT_E_DATA, "the file has %d channels, the model takes %d", have, want->channels);
    if (!s && o.what.rate != want->rate)
        s = ot_fail(err, OT_E_DATA, "has a sample rate of %d Hz instead of %d Hz", o.what.rate, want->rate);
    int64_t over = o.what.frames - want->length;
    int64_t from = over <= 0 ? 0 : want->place < 0 ? over / 2 : (int64_t)(want->place * (double)(over + 1));
    memset(to, 0, (size_t)(want->length * want->channels) * sizeof *to);
    if (!s) s = read_frames(&o, bytes[0] == 'f', want, from > over && over > 0 ? over : from, to, err);
    sound_close(&o);
    return s;
}

#else

const char *ot_sound_missing(void) { return "libsndfile"; }

static ot_status missing(const uint8_t *bytes, size_t n, size_t size, bool *more, ot_error *err)
{
    kind k;
    OT_TRY(find_kind(bytes, n, size, &k, more, err));
    return *more ? OT_OK
                 : ot_fail(err, OT_E_DATA,
                           "recordings need libsndfile, which this program was built without; Debian: apt-get install "
                           "libsndfile1-dev, then build again");
}

ot_status ot_sound_look(const uint8_t *bytes, size_t n, size_t size, ot_sound *out, bool *more, ot_error *err)
{
    (void)out;
    return missing(bytes, n, size, more, err);
}

ot_status ot_sound_decode(const uint8_t *bytes, size_t n, const ot_sound_want *want, float *to, ot_error *err)
{
    bool more;
    (void)want, (void)to;
    return missing(bytes, n, n, &more, err);
}

#endif
