/* adapt.c - arrays to inputs and targets: what fits, what is said, what is refused. */

#include <stdlib.h>

#include "runtime/train/feed/bind_inputs.h"
#include "tests/train/train.h"

/* A graph of one input and a data set of one array, both of whatever shape. */
typedef struct bed {
    ot_error err;
    ot_arena *a;
    ot_graph *g;
    ot_dataset d;
    ot_array array[4];
    ot_settings s;
    ot_normalize z;
    const char *notes;
    ot_feeders fs;
} bed;

static void open_bed(bed *b)
{
    *b = (bed){ .notes = "" };
    b->a = ot_arena_new();
    b->g = ot_graph_new(&b->err);
    b->d = (ot_dataset){ .name = "bed", .array = b->array };
    assert_int_equal(ot_normalize_parse("1/255", &b->z, &b->err), OT_OK);
}

static void close_bed(bed *b)
{
    ot_graph_free(b->g);
    ot_arena_free(b->a);
}

static void input(bed *b, const char *name, ot_dtype t, ot_shape s)
{
    ot_value *v = ot_graph_value(b->g, name, OT_INPUT, t, &s);
    ot_graph_input(b->g, v);
    ot_graph_output(b->g, v);
}

static ot_array *array(bed *b, const char *name, ot_dtype t, ot_shape s, void *data)
{
    ot_array *x = &b->array[b->d.n++];
    *x = (ot_array){ .t = { .name = name, .dtype = t, .rank = s.rank, .data = data } };
    memcpy(x->t.dim, s.dim, sizeof s.dim);
    if (s.rank && !b->d.samples) b->d.samples = s.dim[0];
    return x;
}

static ot_adapt_env env(bed *b)
{
    return (ot_adapt_env){ .graph = b->g, .s = &b->s, .normalize = &b->z, .a = b->a, .notes = &b->notes };
}

static ot_status adapt(bed *b)
{
    ot_adapt_env e = env(b);
    b->err = (ot_error){ 0 };
    return ot_adapt_inputs(&e, &b->d, &b->fs, &b->err);
}

#define SHAPE(...)                                                                                 \
    ((ot_shape){ .rank = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),              \
                 .dim = { __VA_ARGS__ } })

/* Pictures of h x w x c for an input of shape s: the shape of a sample, and its values. */
static void pictures(bed *b, ot_shape s, int64_t h, int64_t w, int64_t c, const ot_shape *expected)
{
    int64_t n = 2 * h * w * c;
    uint8_t *bytes = ot_arena_alloc(b->a, (size_t)n);
    for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i % 251);
    b->d.n = 0;
    b->d.samples = 0;
    b->g->n_inputs = 0;
    input(b, "x", OT_F32, s);
    array(b, "", OT_U8, c == 1 ? SHAPE(2, h, w) : SHAPE(2, h, w, c), bytes)->picture = true;
    assert_ok(adapt(b), b->err);
    assert_int_equal(b->fs.n, 1);
    if (!ot_shape_eq(&b->fs.f[0].sample, expected)) fail_msg("rank %d", b->fs.f[0].sample.rank);
    assert_ok(ot_feeder_prepare(&b->fs.f[0], 2, b->a, &b->err), b->err);
    assert_ok(ot_feeder_take(&b->fs.f[0], (int64_t[]){ 1, 0 }, 2, OT_NOT_AUGMENTED, b->fs.f[0].buffer, 1, &b->err),
              b->err);
}

static void pictures_take_any_place(void **state)
{
    (void)state;
    bed b;
    open_bed(&b);
    ot_shape planes = SHAPE(1, 28, 28), last = SHAPE(28, 28, 1), flat = SHAPE(784), grey = SHAPE(28, 28);
    ot_shape padded = SHAPE(1, 32, 32), colour = SHAPE(3, 28, 28), large = SHAPE(3, 56, 56), flat32 = SHAPE(1024);
    pictures(&b, SHAPE(-1, 1, 28, 28), 28, 28, 1, &planes);
    float *y = b.fs.f[0].buffer;
    assert_near(y[3], (double)((784 + 3) % 251) / 255, 1e-6); /* sample 1 comes first */
    pictures(&b, SHAPE(1, 1, -1, -1), 28, 28, 1, &planes);
    pictures(&b, SHAPE(-1, 28, 28, 1), 28, 28, 1, &last);
    pictures(&b, SHAPE(-1, 784), 28, 28, 1, &flat);
    pictures(&b, SHAPE(-1, -1), 28, 28, 1, &flat);
    pictures(&b, SHAPE(-1, 28, 28), 28, 28, 1, &grey);
    pictures(&b, SHAPE(-1, 1, 32, 32), 28, 28, 1, &padded);
    y = b.fs.f[0].buffer;
    assert_near(y[0], 0, 0);
    assert_near(y[2 * 32 + 2], (double)(784 % 251) / 255, 1e-6);
    assert_non_null(strstr(b.notes, "padded with zeros from 28x28 to 32x32"));
    pictures(&b, SHAPE(-1, 1024), 28, 28, 1, &flat32);
    pictures(&b, SHAPE(-1, 3, 28, 28), 28, 28, 1, &colour);
    y = b.fs.f[0].buffer;
    assert_near(y[5], y[784 + 5], 0);
    pictures(&b, SHAPE(-1, 3, 56, 56), 28, 28, 1, &large);
    close_bed(&b);
}

static void channels_move(void **state)
{
    (void)state;
    bed b;
    open_bed(&b);
    ot_shape planes = SHAPE(3, 8, 9), last = SHAPE(8, 9, 3), grey = SHAPE(1, 8, 9);
    pictures(&b, SHAPE(-1, 3, 8, 9), 8, 9, 3, &planes);
    float *y = b.fs.f[0].buffer; /* sample 1, channel 2, place (1, 3): source (1, 3, 2) */
    assert_near(y[(2 * 8 + 1) * 9 + 3] * 255, (216 + (1 * 9 + 3) * 3 + 2) % 251, 1e-3);
    pictures(&b, SHAPE(-1, 8, 9, 3), 8, 9, 3, &last);
    y = b.fs.f[0].buffer;
    assert_near(y[7] * 255, 223, 1e-3);
    pictures(&b, SHAPE(-1, 1, 8, 9), 8, 9, 3, &grey);
    y = b.fs.f[0].buffer;
    assert_near(y[0] * 255, 0.299 * 216 + 0.587 * 217 + 0.114 * 218, 0.51);
    close_bed(&b);
}

static void resizing_keeps_the_mean(void **state)
{
    (void)state;
    uint8_t x[16], y[64];
    ot_picture from = { 4, 4, 1, false }, to = { 8, 8, 1, false };
    for (int i = 0; i < 16; i++) x[i] = (uint8_t)(10 * i);
    ot_redraw(x, &from, &to, y);
    assert_int_equal(y[0], 0); /* corners stay */
    assert_int_equal(y[63], 150);
    /* Position (1, 1) is a quarter between the first pixels on both axes. */
    assert_near(y[9], 0.25 * 10 + 0.25 * 40, 0.51);
}

static void refused(void **state)
{
    (void)state;
    bed b;
    float data[64] = { 0 };
    double wide[] = { 1, 2.5 };
    open_bed(&b);
    input(&b, "x", OT_F32, SHAPE(-1, 3));
    array(&b, "y", OT_F32, SHAPE(4, 3), data);
    array(&b, "z", OT_F32, SHAPE(4, 2), data);
    assert_int_equal(adapt(&b), OT_E_DATA);
    assert_says(b.err,
                "bed: input 'x' is float32 [?,3]: the data has no array of this name; its arrays are 'y' float32 "
                "[4,3], 'z' float32 [4,2]; --inputs 'x=y' feeds the one of this shape, --target ARRAY says");
    b.d.n = 1;
    b.err = (ot_error){ 0 }; /* the only one */
    assert_ok(adapt(&b), b.err);
    assert_non_null(strstr(b.notes, "array 'y' is fed to input 'x', the only one"));
    b.array[0].t.name = "x";
    assert_ok(adapt(&b), b.err);
    b.array[0].t.dim[1] = 4;
    assert_int_equal(adapt(&b), OT_E_DATA);
    assert_says(b.err, "input 'x' is [?,3], but array 'x' is [4,4]");

    b.err = (ot_error){ 0 }; /* the graph sees it too */
    b.g->n_inputs = 0;       /* two faults are reported at once */
    input(&b, "x", OT_F32, SHAPE(-1, 3));
    input(&b, "z", OT_I32, SHAPE(-1));
    array(&b, "z", OT_F64, SHAPE(2), wide);
    b.d.samples = 2;
    b.array[0].t.dim[0] = 2;
    assert_int_equal(adapt(&b), OT_E_DATA);
    assert_says(b.err, "input 'x'");
    assert_says(b.err, "input 'z'");
    close_bed(&b);
}

/* An input that nothing reads needs no array, and does not take the one that is left for the only other input. */
static void unread_inputs(void **state)
{
    (void)state;
    bed b;
    float data[64] = { 0 };
    open_bed(&b);
    ot_shape s = SHAPE(-1, 3);
    ot_graph_input(b.g, ot_graph_value(b.g, "unread", OT_INPUT, OT_F32, &s));
    input(&b, "x", OT_F32, s);
    array(&b, "pictures", OT_F32, SHAPE(4, 3), data);
    assert_ok(adapt(&b), b.err);
    assert_int_equal(b.fs.n, 1);
    assert_string_equal(b.fs.f[0].name, "x");
    array(&b, "unread", OT_F32, SHAPE(4, 3), data); /* where there is one, it is fed */
    array(&b, "x", OT_F32, SHAPE(4, 3), data);
    assert_ok(adapt(&b), b.err);
    assert_int_equal(b.fs.n, 2);
    close_bed(&b);
}

static void whole_arrays(void **state)
{
    (void)state;
    bed b;
    float data[64] = { 0 };
    ot_feed feed[2];
    open_bed(&b);
    input(&b, "x", OT_F32, SHAPE(-1, 3));
    input(&b, "h", OT_F32, SHAPE(1, 2));
    array(&b, "x", OT_F32, SHAPE(4, 3), data);
    array(&b, "h", OT_F32, SHAPE(1, 2), data)->whole = true;
    assert_ok(adapt(&b), b.err);
    ot_feeders_feeds(&b.fs, 3, feed);
    assert_int_equal(feed[0].shape.dim[0], 3);
    assert_false(feed[0].whole);
    assert_true(feed[1].whole);
    assert_int_equal(feed[1].shape.dim[0], 1);
    close_bed(&b);
}

/* ---- targets ------------------------------------------------------------------------ */

static ot_status targets(bed *b, const char *loss, ot_shape output, ot_dtype t, ot_shape s, void *data)
{
    ot_spec thing = { .name = loss };
    ot_output y = { .name = "y", .dtype = OT_F32, .shape = output };
    ot_adapt_env e = env(b);
    b->err = (ot_error){ 0 };
    b->d.n = 0;
    b->d.samples = s.dim[0];
    array(b, "target", t, s, data)->role = OT_ARRAY_TARGET;
    b->s.options.losses = &thing;
    b->s.options.n_losses = loss != NULL;
    b->fs = (ot_feeders){ .data = &b->d, .samples = s.dim[0] };
    return ot_adapt_targets(&e, &y, 1, &b->fs, &b->err);
}

static void labels(void **state)
{
    (void)state;
    bed b;
    uint8_t u[] = { 0, 2, 1, 0 };
    int64_t bad[] = { 0, 1, 3, 0 }, negative[] = { 0, -1, 1, 0 };
    float floats[] = { 0, 1, 2, 1 }, half[] = { 0, 0.5f, 1, 0 };
    open_bed(&b);
    assert_ok(targets(&b, "cross_entropy", SHAPE(2, 3), OT_U8, SHAPE(4), u), b.err);
    assert_int_equal(b.fs.f[0].dtype, OT_I64);
    assert_ok(targets(&b, NULL, SHAPE(2, 3), OT_U8, SHAPE(4, 1), u), b.err); /* a column of labels */
    assert_int_equal(b.fs.f[0].sample.rank, 0);
    assert_ok(targets(&b, "cross_entropy", SHAPE(2, 3), OT_F32, SHAPE(4), floats), b.err);
    assert_int_equal(b.fs.f[0].dtype, OT_I64);
    assert_int_equal(targets(&b, "cross_entropy", SHAPE(2, 3), OT_F32, SHAPE(4), half), OT_E_DATA);
    assert_int_equal(targets(&b, "cross_entropy", SHAPE(2, 3), OT_I64, SHAPE(4), bad), OT_E_DATA);
    assert_says(b.err, "sample 2 has class 3, but output 'y' has 3 classes, 0 to 2");
    assert_int_equal(targets(&b, NULL, SHAPE(2, 3), OT_I64, SHAPE(4), negative), OT_E_DATA);
    assert_says(b.err, "sample 1 has class -1");
    assert_int_equal(targets(&b, "nll", SHAPE(2, 3, 5), OT_I64, SHAPE(2, 4), bad), OT_E_DATA);
    assert_says(b.err, "expected class numbers (that shape without the class axis)");
    assert_ok(targets(&b, "cross_entropy", SHAPE(2, 3, 2), OT_I64, SHAPE(2, 2), (int64_t[]){ 2, 0, 1, 1 }),
              b.err); /* axis 1 */
    assert_ok(targets(&b, "cross_entropy", SHAPE(2, 4, 5), OT_I64, SHAPE(1, 4), (int64_t[]){ 4, 0, 1, 1 }),
              b.err); /* the last */
    close_bed(&b);
}

static void values(void **state)
{
    (void)state;
    bed b;
    float y[8] = { 0 };
    double wide[4] = { 0 };
    uint8_t bits[] = { 0, 1, 1, 0, 1, 1 };
    open_bed(&b);
    assert_ok(targets(&b, "mse", SHAPE(2, 1), OT_F64, SHAPE(4), wide), b.err); /* (N) for (N, 1) */
    assert_int_equal(b.fs.f[0].dtype, OT_F32);
    assert_int_equal(b.fs.f[0].sample.rank, 1);
    assert_int_equal(targets(&b, "mse", SHAPE(2, 3), OT_F32, SHAPE(4, 2), y), OT_E_DATA);
    assert_says(b.err, "bed: target 'target' is float32 [2] per sample, but output 'y' is [3] per sample");
    assert_ok(targets(&b, "bce", SHAPE(2, 3), OT_U8, SHAPE(2, 3), bits), b.err);
    assert_int_equal(b.fs.f[0].dtype, OT_F32);
    assert_ok(targets(&b, "output", SHAPE(2, 3), OT_F32, SHAPE(4, 2), y), b.err);
    assert_int_equal(b.fs.n, 0); /* the output is the loss: no target is fed */
    b.d.n = 0;
    ot_spec mse = { .name = "mse" };
    ot_adapt_env e = env(&b);
    b.s.options.losses = &mse;
    b.s.options.n_losses = 1;
    b.err = (ot_error){ 0 };
    assert_int_equal(ot_adapt_targets(&e, NULL, 0, &b.fs, &b.err), OT_E_DATA);
    assert_says(b.err, "the data has no array 'target'");
    close_bed(&b);
}

/* Two outputs, and arrays with names. */
static ot_status heads(bed *b, ot_spec *losses, int n_losses, const char *const *names, int n)
{
    static int64_t classes[4] = { 0, 2, 1, 0 };
    static float values[4];
    ot_output y[] = { { .name = "cls", .dtype = OT_F32, .shape = SHAPE(2, 3) },
                      { .name = "reg", .dtype = OT_F32, .shape = SHAPE(2, 1) } };
    ot_adapt_env e = env(b);
    b->err = (ot_error){ 0 };
    b->notes = "";
    b->d.n = 0;
    b->d.samples = 4;
    for (int i = 0; i < n; i++) {
        bool ints = strstr(names[i], "reg") == NULL;
        array(b, names[i], ints ? OT_I64 : OT_F32, SHAPE(4), ints ? (void *)classes : values)->role =
            strncmp(names[i], "target", 6) ? OT_ARRAY_INPUT : OT_ARRAY_TARGET;
    }
    b->s.options.losses = losses;
    b->s.options.n_losses = n_losses;
    b->fs = (ot_feeders){ .data = &b->d, .samples = 4 };
    return ot_adapt_targets(&e, y, 2, &b->fs, &b->err);
}

#define NAMES(...) (const char *const[]){ __VA_ARGS__ }, (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void every_target_is_learnt(void **state)
{
    (void)state;
    bed b;
    ot_param zero = { .key = "weight", .text = "0", .num = 0 };
    ot_spec cls = { .name = "cross_entropy", .output = "cls" }, any = { .name = "mse" },
            none = { .name = "mse", .output = "reg", .n = 1, .param = &zero };
    open_bed(&b);
    assert_ok(heads(&b, NULL, 0, NAMES("target_cls", "target_reg")), b.err);
    assert_int_equal(b.fs.n, 2);
    assert_string_equal(b.notes, "");
    assert_ok(heads(&b, NULL, 0, NAMES("target_reg")), b.err);
    assert_string_equal(b.fs.f[0].name, "target_reg");
    assert_string_equal(b.notes,
                        "output 'cls': no target and no loss; weights that affect no other output do not train");
    assert_int_equal(heads(&b, NULL, 0, NAMES("target_cls", "target_nope")), OT_E_DATA);
    assert_says(b.err, "bed: array 'target_nope': the model has no output 'nope'; its outputs are 'cls', 'reg'");
    assert_int_equal(heads(&b, &cls, 1, NAMES("target_cls", "target_reg")), OT_E_DATA);
    assert_says(b.err, "array 'target_reg' is not used");
    assert_ok(heads(&b, (ot_spec[]){ cls, none }, 2, NAMES("target_cls", "target_reg")), b.err);
    assert_int_equal(b.fs.n, 1);
    assert_ok(heads(&b, &any, 1, NAMES("target_reg")), b.err); /* the loss goes where the target is */
    assert_string_equal(any.output, "reg");
    assert_int_equal(heads(&b, &cls, 1, NAMES("target_reg")), OT_E_DATA);
    assert_says(b.err, "the data has no array 'target_cls'");
    assert_ok(heads(&b, NULL, 0, NAMES("target", "more")), b.err); /* the first output's */
    assert_non_null(strstr(b.notes, "'more' is not used"));
    assert_non_null(strstr(b.notes, "output 'reg': no target"));
    close_bed(&b);
}

int test_adapt(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_take_any_place),
        cmocka_unit_test(channels_move),
        cmocka_unit_test(resizing_keeps_the_mean),
        cmocka_unit_test(refused),
        cmocka_unit_test(unread_inputs),
        cmocka_unit_test(whole_arrays),
        cmocka_unit_test(labels),
        cmocka_unit_test(values),
        cmocka_unit_test(every_target_is_learnt),
    };
    return cmocka_run_group_tests_name("adapt", tests, NULL, NULL);
}
