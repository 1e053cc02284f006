/* events.c - TensorBoard event files, derived from the log.
 *
 * Spec    A file is a row of records: length (u64, little endian), masked CRC-32C of these 8 bytes, a tensorflow.Event in
 *         protobuf's wire format, its masked CRC-32C.  The field numbers are those of event.proto, summary.proto and
 *         tensor.proto of TensorFlow, and plugin_data.proto of the hparams plugin of TensorBoard.
 * Source  Written field by field: the messages are few, and none is read. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ops/op.h"
#include "runtime/base/crc32c.h"
#include "runtime/train/run/events.h"

enum { FULL = 64 << 10 }; /* bytes after which the buffer is written */

/* Field numbers, by message. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_GRAPH = 4, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_HISTOGRAM = 5, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, METADATA_CLASS = 4, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2, CLASS_TENSOR = 2 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRING = 8, DTYPE_STRING = 7 };
enum { HPARAMS_START = 3, HPARAMS_END = 4, START_HPARAMS = 1, START_SECONDS = 5, END_STATUS = 1, END_SECONDS = 2 };
enum { MAP_KEY = 1, MAP_VALUE = 2, ANY_NUMBER = 2, ANY_STRING = 3 };
enum { HISTO_MIN = 1, HISTO_MAX, HISTO_NUM, HISTO_SUM, HISTO_SQUARES, HISTO_LIMIT, HISTO_BUCKET };
enum { GRAPH_NODE = 1, GRAPH_VERSIONS = 4, NODE_NAME = 1, NODE_OP = 2, NODE_INPUT = 3, NODE_ATTR = 5 };
enum { VERSIONS_PRODUCER = 1, ATTR_LIST = 1, LIST_SHAPE = 7, SHAPE_DIM = 2, DIM_SIZE = 1 };
enum { STATUS_SUCCESS = 1, STATUS_FAILURE = 2 };

struct ot_events {
    char *path; /* for messages */
    int fd;
    bool bad; /* a write failed: the rest would begin in the middle of a record */
    unsigned char *text;
    size_t n, size;
    ot_crc32c crc;
    double samples, since; /* of the throughput: samples after that second */
    ot_error err;
};

/* ---- bytes ------------------------------------------------------------------------- */

static void no_memory(ot_events *e)
{
    e->bad = true;
    ot_fail(&e->err, OT_E_NOMEM, "%s: no memory for TensorBoard events", e->path);
}

static void put(ot_events *e, const void *p, size_t n)
{
    if (e->bad) return;
    if (n > e->size - e->n) {
        size_t size = 2 * (e->size + n);
        unsigned char *more = realloc(e->text, size);
        if (!more) {
            no_memory(e);
            return;
        }
        e->text = more;
        e->size = size;
    }
    memcpy(e->text + e->n, p, n);
    e->n += n;
}

/* Writes the n low bytes of v, little-endian. */
static void put_fixed(ot_events *e, uint64_t v, int n)
{
    unsigned char b[8];
    for (int i = 0; i < n; i++) b[i] = (unsigned char)(v >> 8 * i);
    put(e, b, (size_t)n);
}

static int varint(unsigned char b[10], uint64_t v)
{
    int n = 0;
    for (; v > 127; v >>= 7) b[n++] = (unsigned char)(v | 128);
    b[n++] = (unsigned char)v;
    return n;
}

static void put_varint(ot_events *e, uint64_t v)
{
    unsigned char b[10];
    int n = varint(b, v);
    put(e, b, (size_t)n);
}

/* ---- fields ------------------------------------------------------------------------- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_whole(ot_events *e, int field, int64_t v)
{
    put_varint(e, (uint64_t)field << 3 | VARINT);
    put_varint(e, (uint64_t)v);
}

static void put_double(ot_events *e, int field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_varint(e, (uint64_t)field << 3 | FIXED64);
    put_fixed(e, bits, 8);
}

static void put_float(ot_events *e, int field, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_varint(e, (uint64_t)field << 3 | FIXED32);
    put_fixed(e, bits, 4);
}

static void put_text(ot_events *e, int field, const char *text, size_t n)
{
    put_varint(e, (uint64_t)field << 3 | BYTES);
    put_varint(e, n);
    put(e, text, n);
}

/* A nested message: the bytes that are written between open and close. */
static size_t open_field(ot_events *e, int field)
{
    put_varint(e, (uint64_t)field << 3 | BYTES);
    return e->n;
}

static void close_field(ot_events *e, size_t at)
{
    unsigned char length[10];
    if (e->bad) return;
    size_t n = e->n - at, k = (size_t)varint(length, n);
    put(e, length, k); /* for the room */
    if (e->bad) return;
    memmove(e->text + at + k, e->text + at, n);
    memcpy(e->text + at, length, k);
}

/* ---- records ------------------------------------------------------------------------- */

enum { LENGTH = 12 }; /* bytes before a record's data */

static double wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t open_event(ot_events *e, int64_t step)
{
    size_t at = e->n;
    put(e, (unsigned char[LENGTH]){ 0 }, LENGTH);
    put_double(e, EVENT_TIME, wall_time());
    put_whole(e, EVENT_STEP, step);
    return at;
}

static void close_event(ot_events *e, size_t at)
{
    if (e->bad) return;
    unsigned char *head = e->text + at;
    uint64_t n = e->n - at - LENGTH;
    for (int i = 0; i < 8; i++) head[i] = (unsigned char)(n >> 8 * i);
    uint32_t sum = ot_crc32c_masked(&e->crc, head, 8);
    for (int i = 0; i < 4; i++) head[8 + i] = (unsigned char)(sum >> 8 * i);
    put_fixed(e, ot_crc32c_masked(&e->crc, head + LENGTH, n), 4);
    if (e->n > FULL) ot_events_flush(e);
}

void ot_events_flush(ot_events *e)
{
    for (size_t at = 0; at < e->n && !e->bad;) {
        ssize_t done = write(e->fd, e->text + at, e->n - at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            int number = done < 0 ? errno : ENOSPC;
            e->bad = true;
            ot_fail(&e->err, ot_failed_call(number), "%s: cannot be written: %s", e->path,
                    strerror_r(number, (char[128]){ 0 }, 128));
            return;
        }
        at += (size_t)done;
    }
    e->n = 0;
}

/* ---- summaries ------------------------------------------------------------------------ */

static void put_scalar(ot_events *e, const char *tag, double v)
{
    size_t at = open_field(e, SUMMARY_VALUE);
    put_text(e, VALUE_TAG, tag, strlen(tag));
    put_float(e, VALUE_SIMPLE, (float)v);
    close_field(e, at);
}

/* Opens the value `tag` with the metadata of a plugin; content: of the metadata, or "". */
static void put_metadata(ot_events *e, const char *plugin, size_t from)
{
    /* What stands at `from` and after it is the content: it moves into the metadata. */
    size_t n = e->n - from;
    char *content = e->bad ? NULL : malloc(n + 1);
    if (!content) {
        if (!e->bad) no_memory(e);
        return;
    }
    memcpy(content, e->text + from, n);
    e->n = from;
    size_t metadata = open_field(e, VALUE_METADATA), data = open_field(e, METADATA_PLUGIN);
    put_text(e, PLUGIN_NAME, plugin, strlen(plugin));
    if (n) put_text(e, PLUGIN_CONTENT, content, n);
    close_field(e, data);
    put_whole(e, METADATA_CLASS, CLASS_TENSOR);
    close_field(e, metadata);
    free(content);
}

/* A scalar tensor with a string. */
static void put_tensor(ot_events *e, const char *text, size_t n)
{
    size_t at = open_field(e, VALUE_TENSOR);
    put_whole(e, TENSOR_DTYPE, DTYPE_STRING);
    close_field(e, open_field(e, TENSOR_SHAPE));
    put_text(e, TENSOR_STRING, text, n);
    close_field(e, at);
}

/* Writes the numbers of an object and of nested objects as scalars PREFIX/KEY. */
static void put_numbers(ot_events *e, const char *prefix, json_t *object)
{
    const char *key;
    json_t *v;
    char tag[512];
    json_object_foreach(object, key, v)
    {
        if (!strcmp(key, "step") || !strcmp(key, "epoch") || !strcmp(key, "samples") || !strcmp(key, "nonfinite"))
            continue;
        snprintf(tag, sizeof tag, "%s/%s", prefix, key);
        if (json_is_number(v)) put_scalar(e, tag, json_number_value(v));
        if (json_is_object(v)) put_numbers(e, tag, v);
    }
}

void ot_events_step(ot_events *e, const ot_log_step *s, int n, char *const *head)
{
    size_t at = open_event(e, s->step), summary = open_field(e, EVENT_SUMMARY);
    put_scalar(e, "train/loss", s->loss);
    for (int i = 0; i < n && s->head; i++) {
        char tag[512]; /* without the quotes of JSON */
        snprintf(tag, sizeof tag, "train/losses/%.*s", (int)strlen(head[i]) - 2, head[i] + 1);
        put_scalar(e, tag, s->head[i]);
    }
    if (s->has_norm) put_scalar(e, "train/grad_norm", s->grad_norm);
    put_scalar(e, "train/lr", s->lr);
    e->samples += (double)s->samples;
    if (s->seconds - e->since >= 1) {
        put_scalar(e, "train/samples_per_second", e->samples / (s->seconds - e->since));
        e->samples = 0;
        e->since = s->seconds;
    }
    close_field(e, summary);
    close_event(e, at);
}

/* ---- lines of the log ------------------------------------------------------------------ */

static void put_markdown(ot_events *e, const char *key, const json_t *v)
{
    char *text = ot_json_dump(v, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) {
        no_memory(e);
        return;
    }
    put(e, "| ", 2);
    put(e, key, strlen(key));
    put(e, " | ", 3);
    size_t n = strlen(text), from = json_is_string(v); /* a string without its quotes */
    for (size_t i = from; i < n - from; i++) {
        if (text[i] == '|') put(e, "\\", 1);
        put(e, text + i, 1);
    }
    put(e, " |\n", 3);
    free(text);
}

/* Writes the fields of the line, with its options, as a table. */
static void put_start_text(ot_events *e, json_t *line)
{
    const char *key;
    json_t *v;
    size_t at = open_event(e, 0), summary = open_field(e, EVENT_SUMMARY), value = open_field(e, SUMMARY_VALUE);
    put_text(e, VALUE_TAG, "options", 7);
    put_metadata(e, "text", e->n);
    size_t from = e->n;
    put(e, "| | |\n|---|---|\n", 16);
    json_object_foreach(line, key, v) if (strcmp(key, "event") && strcmp(key, "options")) put_markdown(e, key, v);
    json_object_foreach(json_object_get(line, "options"), key, v)
    {
        char name[128];
        snprintf(name, sizeof name, "--%s", key);
        put_markdown(e, name, v);
    }
    size_t n = e->n - from;
    char *text = e->bad ? NULL : malloc(n);
    if (text) memcpy(text, e->text + from, n);
    else if (!e->bad) no_memory(e);
    if (text) e->n = from, put_tensor(e, text, n);
    free(text);
    close_field(e, value);
    close_field(e, summary);
    close_event(e, at);
}

static void put_hparam(ot_events *e, const char *key, const json_t *v)
{
    double number;
    const char *text = json_string_value(v);
    char *list = json_is_array(v) ? ot_json_dump(v, JSON_COMPACT) : NULL;
    size_t pair = open_field(e, START_HPARAMS);
    put_text(e, MAP_KEY, key, strlen(key));
    size_t any = open_field(e, MAP_VALUE);
    if (json_is_number(v)) put_double(e, ANY_NUMBER, json_number_value(v));
    else if (text && ot_number(text, &number)) put_double(e, ANY_NUMBER, number);
    else if (text || list) put_text(e, ANY_STRING, text ? text : list, strlen(text ? text : list));
    close_field(e, any);
    close_field(e, pair);
    free(list);
}

/* Opens a value of the hparams plugin and its message; *content is where that begins. */
static size_t open_hparams(ot_events *e, const char *tag, size_t *summary, size_t *value, size_t *content)
{
    size_t at = open_event(e, 0);
    *summary = open_field(e, EVENT_SUMMARY);
    *value = open_field(e, SUMMARY_VALUE);
    put_text(e, VALUE_TAG, tag, strlen(tag));
    *content = e->n;
    return at;
}

static void close_hparams(ot_events *e, size_t at, size_t summary, size_t value, size_t content)
{
    put_metadata(e, "hparams", content);
    put_tensor(e, "", 0);
    close_field(e, value);
    close_field(e, summary);
    close_event(e, at);
}

static void put_start_hparams(ot_events *e, json_t *line)
{
    static const char *const kept[] = { "device", "precision", "batch_size", "steps", "trained" };
    const char *key;
    json_t *v, *options = json_object_get(line, "options");
    size_t summary, value, content, at = open_hparams(e, "_hparams_/session_start_info", &summary, &value, &content);
    size_t start = open_field(e, HPARAMS_START);
    json_object_foreach(options, key, v) put_hparam(e, key, v);
    for (int i = 0; i < OT_LEN(kept); i++)
        if ((v = json_object_get(line, kept[i])) && !json_object_get(options, kept[i])) put_hparam(e, kept[i], v);
    put_double(e, START_SECONDS, wall_time());
    close_field(e, start);
    close_hparams(e, at, summary, value, content);
}

static void put_end(ot_events *e, bool finished)
{
    size_t summary, value, content, at = open_hparams(e, "_hparams_/session_end_info", &summary, &value, &content);
    size_t end = open_field(e, HPARAMS_END);
    put_whole(e, END_STATUS, finished ? STATUS_SUCCESS : STATUS_FAILURE);
    put_double(e, END_SECONDS, wall_time());
    close_field(e, end);
    close_hparams(e, at, summary, value, content);
}

static void put_resumed(ot_events *e, int64_t step)
{
    size_t at = open_event(e, step), session = open_field(e, EVENT_SESSION);
    put_whole(e, SESSION_STATUS, SESSION_START);
    close_field(e, session);
    close_event(e, at);
}

void ot_events_line(ot_events *e, json_t *line)
{
    const char *kind = json_string_value(json_object_get(line, "event"));
    int64_t step = json_integer_value(json_object_get(line, "step"));
    if (!kind) return;
    if (!strcmp(kind, "start")) {
        put_start_text(e, line);
        put_start_hparams(e, line);
    } else if (!strcmp(kind, "resume")) {
        put_resumed(e, step + 1);
    } else if (!strcmp(kind, "eval")) {
        const char *split = json_string_value(json_object_get(line, "split"));
        size_t at = open_event(e, step), summary = open_field(e, EVENT_SUMMARY);
        put_numbers(e, split ? split : "eval", line);
        close_field(e, summary);
        close_event(e, at);
    } else if (!strcmp(kind, "end")) {
        const char *reason = json_string_value(json_object_get(line, "reason"));
        put_end(e, reason && !strcmp(reason, "finished"));
    }
    ot_events_flush(e);
}

/* ---- tensors and the graph ----------------------------------------------------------------- */

void ot_events_histogram(ot_events *e, int64_t step, const char *tag, const ot_events_buckets *b)
{
    size_t at = open_event(e, step), summary = open_field(e, EVENT_SUMMARY), value = open_field(e, SUMMARY_VALUE);
    double width = (b->most - b->least) / OT_EVENTS_BUCKETS;
    int used = width > 0 ? OT_EVENTS_BUCKETS : 1;
    put_text(e, VALUE_TAG, tag, strlen(tag));
    size_t histogram = open_field(e, VALUE_HISTOGRAM);
    put_double(e, HISTO_MIN, b->least);
    put_double(e, HISTO_MAX, b->most);
    put_double(e, HISTO_NUM, (double)b->n);
    put_double(e, HISTO_SUM, b->sum);
    put_double(e, HISTO_SQUARES, b->squares);
    for (int which = HISTO_LIMIT; which <= HISTO_BUCKET; which++) {
        size_t list = open_field(e, which);
        for (int i = 0; i < used; i++) {
            double v = which == HISTO_BUCKET ? (double)b->count[i]
                       : i + 1 == used       ? b->most
                                             : b->least + (i + 1) * width;
            uint64_t bits;
            memcpy(&bits, &v, sizeof bits);
            put_fixed(e, bits, 8);
        }
        close_field(e, list);
    }
    close_field(e, histogram);
    close_field(e, value);
    close_field(e, summary);
    close_event(e, at);
}

/* As TensorBoard reads a name: '/' divides groups, '^' in front and ':' have meanings of their own. */
static void put_name(ot_events *e, int field, const char *name, int port)
{
    char shown[1000], text[1032];
    const char *from = ot_shown(name, shown, sizeof shown);
    size_t n = 0;
    from += strspn(from, "/^");
    for (; *from; from++) text[n++] = *from == ':' ? '_' : *from;
    if (!n) text[n++] = '_';
    text[n] = '\0';
    if (port > 0) n += (size_t)snprintf(text + n, sizeof text - n, ":%d", port);
    put_text(e, field, text, n);
}

static const ot_value *first_output(const ot_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) return n->out[i];
    return NULL;
}

static void put_input(ot_events *e, const ot_value *v)
{
    const ot_value *of = v->producer ? first_output(v->producer) : v;
    if (of) put_name(e, NODE_INPUT, of->name, v->producer ? v->port : 0);
}

static void put_shape(ot_events *e, const ot_value *v)
{
    static const char key[] = "_output_shapes";
    if (!ot_shape_known(&v->shape)) return;
    size_t attribute = open_field(e, NODE_ATTR);
    put_text(e, MAP_KEY, key, sizeof key - 1);
    size_t any = open_field(e, MAP_VALUE), list = open_field(e, ATTR_LIST), shape = open_field(e, LIST_SHAPE);
    for (int i = 0; i < v->shape.rank; i++) {
        size_t dim = open_field(e, SHAPE_DIM);
        put_whole(e, DIM_SIZE, v->shape.dim[i]);
        close_field(e, dim);
    }
    close_field(e, shape);
    close_field(e, list);
    close_field(e, any);
    close_field(e, attribute);
}

static void put_node(ot_events *e, const ot_value *v, const char *op, const ot_node *n)
{
    size_t node = open_field(e, GRAPH_NODE);
    put_name(e, NODE_NAME, v->name, 0);
    put_text(e, NODE_OP, op, strlen(op));
    for (int i = 0; n && i < n->n_in; i++)
        if (n->in[i]) put_input(e, n->in[i]);
    put_shape(e, v);
    close_field(e, node);
}

void ot_events_graph(ot_events *e, const ot_graph *g)
{
    size_t at = open_event(e, 0), graph = open_field(e, EVENT_GRAPH);
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        if (!v->producer) put_node(e, v, v->role == OT_INPUT ? "Input" : "Initializer", NULL);
    }
    for (const ot_node *n = g->first; n; n = n->next)
        if (first_output(n)) put_node(e, first_output(n), n->op->name, n);
    size_t versions = open_field(e, GRAPH_VERSIONS);
    put_whole(e, VERSIONS_PRODUCER, 22);
    close_field(e, versions);
    close_field(e, graph);
    close_event(e, at);
}

/* ---- the file --------------------------------------------------------------------------- */

/* Now, or the second after the newest file there: of two files of one second the number of the process would decide the
 * order in which they are read. */
static long long time_of_name(int dir)
{
    long long most = (long long)time(NULL), v;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) close(fd);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (sscanf(e->d_name, "events.out.tfevents.%10lld.", &v) == 1 && v >= most && v < 9999999999) most = v + 1;
    if (d) closedir(d);
    return most;
}

/* A name that no other file has.  Readers know the files by "tfevents", and read them in the order of their names. */
static int create(int at, const char *folder, const char *shown, char **path)
{
    char host[HOST_NAME_MAX + 1] = "host";
    (void)gethostname(host, sizeof host - 1);
    int dir = openat(at, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    long long now = time_of_name(dir);
    for (int i = 0; dir >= 0 && fd < 0 && i < 1000; i++) {
        char name[HOST_NAME_MAX + 100];
        snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%d.%d", now, host, (int)getpid(), i);
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
        if (fd >= 0 && asprintf(path, "%s/%s", shown, name) < 0) *path = NULL;
    }
    int number = errno;
    if (dir >= 0) close(dir);
    errno = number;
    return fd;
}

ot_status ot_events_open(int at, const char *folder, const char *shown, ot_events **out, ot_error *err)
{
    *out = NULL;
    ot_events *e = calloc(1, sizeof *e);
    if (!e) return ot_fail(err, OT_E_NOMEM, "no memory for TensorBoard events");
    e->fd = create(at, folder, shown, &e->path);
    if (e->fd < 0 || !e->path) {
        int number = errno;
        ot_status s = e->fd < 0 ? ot_fail(err, ot_failed_call(number), "%s: TensorBoard events cannot be written: %s",
                                          shown, strerror_r(number, (char[128]){ 0 }, 128))
                                : ot_fail(err, OT_E_NOMEM, "no memory for TensorBoard events");
        if (e->fd >= 0) close(e->fd);
        free(e);
        return s;
    }
    ot_crc32c_init(&e->crc);
    size_t first = open_event(e, 0);
    put_text(e, EVENT_VERSION, "brain.Event:2", 13);
    close_event(e, first);
    *out = e;
    return OT_OK;
}

ot_status ot_events_close(ot_events *e, ot_error *err)
{
    if (!e) return OT_OK;
    ot_events_flush(e);
    if (close(e->fd) && errno != EINTR)
        ot_fail(&e->err, ot_failed_call(errno), "%s: cannot be written: %s", e->path,
                strerror_r(errno, (char[128]){ 0 }, 128));
    ot_status s = e->err.status ? ot_fail(err, e->err.status, "%s", e->err.text) : OT_OK;
    free(e->path);
    free(e->text);
    free(e);
    return s;
}
