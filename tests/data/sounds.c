/* sounds.c - recordings: the values of WAV and FLAC files, sets of them, files cut at every byte and with every bit turned. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/sound.h"

enum { HEAD = 44, FRAMES = 600, RATE = 8000, ROOM = 1 << 14 };

static uint8_t *put_number(uint8_t *p, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) *p++ = (uint8_t)(v >> (8 * i));
    return p;
}

/* 16 bits; value i of all is i * 3 - 900. */
static size_t make_wav(uint8_t *to, int rate, int channels, int frames)
{
    uint32_t bytes = (uint32_t)(2 * channels * frames);
    uint8_t *p = to;
    memcpy(p, "RIFF", 4);
    p = put_number(p + 4, bytes + HEAD - 8, 4);
    memcpy(p, "WAVEfmt ", 8);
    p = put_number(p + 8, 16, 4);
    p = put_number(p, 1, 2);
    p = put_number(p, (uint32_t)channels, 2);
    p = put_number(p, (uint32_t)rate, 4);
    p = put_number(p, (uint32_t)(2 * channels * rate), 4);
    p = put_number(p, (uint32_t)(2 * channels), 2);
    p = put_number(p, 16, 2);
    memcpy(p, "data", 4);
    p = put_number(p + 4, bytes, 4);
    for (int i = 0; i < channels * frames; i++) p = put_number(p, (uint32_t)(i * 3 - 900), 2);
    return (size_t)(p - to);
}

static float value(int i) { return (float)(i * 3 - 900) / 32768; }

static void decode(const uint8_t *p, size_t n, ot_sound_want w, float *to)
{
    ot_error e = { 0 };
    w.rate = RATE;
    if (ot_sound_decode(p, n, &w, to, &e)) fail_msg("%s", e.text);
}

static void parts_and_channels(void **state)
{
    (void)state;
    uint8_t file[ROOM];
    float x[2 * FRAMES];
    size_t n = make_wav(file, RATE, 1, FRAMES);
    decode(file, n, (ot_sound_want){ .channels = 1, .length = FRAMES, .place = -1 }, x);
    for (int i = 0; i < FRAMES; i++) assert_true(x[i] == value(i));
    decode(file, n, (ot_sound_want){ .channels = 1, .length = 100, .place = -1 }, x);
    assert_true(x[0] == value(250) && x[99] == value(349));
    decode(file, n, (ot_sound_want){ .channels = 1, .length = 100, .place = 0 }, x);
    assert_true(x[0] == value(0));
    decode(file, n, (ot_sound_want){ .channels = 1, .length = 100, .place = 0.999999 }, x);
    assert_true(x[0] == value(500) && x[99] == value(599));
    decode(file, n, (ot_sound_want){ .channels = 2, .length = FRAMES, .place = -1 }, x);
    assert_true(x[7] == value(7) && x[FRAMES + 7] == value(7));
    n = make_wav(file, RATE, 2, 50);
    decode(file, n, (ot_sound_want){ .channels = 1, .length = 60, .place = -1 }, x);
    assert_true(x[0] == (value(0) + value(1)) / 2 && x[49] == (value(98) + value(99)) / 2);
    for (int i = 50; i < 60; i++) assert_true(x[i] == 0);
    decode(file, n, (ot_sound_want){ .channels = 2, .length = 60, .place = -1 }, x);
    assert_true(x[3] == value(6) && x[63] == value(7) && x[119] == 0);
    decode(file, n, (ot_sound_want){ .channels = 2, .length = 60, .place = -1, .last = true }, x);
    assert_true(x[6] == value(6) && x[7] == value(7) && x[100] == 0);
}

static void reads_flac(void **state)
{
    (void)state;
    size_t n;
    uint8_t *p = ot_fixture_load("tone.flac", &n);
    float x[FRAMES];
    decode(p, n, (ot_sound_want){ .channels = 1, .length = FRAMES, .place = -1 }, x);
    for (int i = 0; i < FRAMES; i++) assert_true(x[i] == (float)round(8000 * sin(i * 2 * M_PI / 20)) / 32768);
    decode(p, n, (ot_sound_want){ .channels = 1, .length = 100, .place = -1 }, x);
    for (int i = 0; i < 100; i++) assert_true(x[i] == (float)round(8000 * sin((250 + i) * 2 * M_PI / 20)) / 32768);
    free(p);
}

/* An exact copy: the sanitizer sees what is read behind it.  Returns the status; an error has a text. */
static ot_status try_bytes(const uint8_t *p, size_t n, float *to)
{
    ot_error e = { 0 };
    ot_sound what;
    bool more;
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, p, n);
    ot_sound_want w = { .channels = 1, .length = 100, .place = -1, .rate = RATE };
    ot_status s = ot_sound_look(copy, n, n, &what, &more, &e);
    assert_true(s == OT_OK || (s == OT_E_DATA && *e.text));
    assert_false(!s && more);
    s = ot_sound_decode(copy, n, &w, to, &e);
    assert_true(s == OT_OK || (s == OT_E_DATA && *e.text));
    for (int i = 0; !s && i < 100; i++) assert_true(isfinite(to[i]));
    free(copy);
    return s;
}

static void cut_anywhere(void **state)
{
    (void)state;
    uint8_t wav[ROOM];
    size_t n;
    float x[100];
    uint8_t *flac = ot_fixture_load("tone.flac", &n);
    for (size_t k = 0; k < n; k++)
        if (!try_bytes(flac, k, x)) fail_msg("tone.flac cut to %zu bytes was accepted", k);
    assert_int_equal(try_bytes(flac, n, x), OT_OK);
    free(flac);
    n = make_wav(wav, RATE, 1, FRAMES);
    for (size_t k = 0; k < n; k++)
        if (!try_bytes(wav, k, x)) fail_msg("a WAV cut to %zu bytes was accepted", k);
    assert_int_equal(try_bytes(wav, n, x), OT_OK);
}

static void every_bit_turned(void **state)
{
    (void)state;
    uint8_t wav[ROOM];
    size_t n;
    float x[100], whole[100];
    uint8_t *flac = ot_fixture_load("tone.flac", &n);
    int wrong = 0;
    assert_int_equal(try_bytes(flac, n, whole), OT_OK);
    for (size_t bit = 0; bit < 8 * n; bit += OT_SPARSE_BITS) {
        flac[bit / 8] ^= (uint8_t)(1u << bit % 8);
        /* Behind the header a checksum covers every byte. */
        if (!try_bytes(flac, n, x) && bit >= 8 * 42) wrong += memcmp(x, whole, sizeof x) != 0;
        flac[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(wrong, 0);
    free(flac);
    n = make_wav(wav, RATE, 1, FRAMES);
    for (size_t bit = 0; bit < 8 * HEAD; bit += OT_SPARSE_BITS) {
        wav[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)try_bytes(wav, n, x);
        wav[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    uint8_t file[ROOM];
    float x[2 * FRAMES];
    ot_error e = { 0 };
    ot_sound_want w = { .channels = 1, .length = FRAMES, .place = -1, .rate = RATE };
    size_t n = make_wav(file, 16000, 1, 10);
    assert_int_equal(ot_sound_decode(file, n, &w, x, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "16000"));
    n = make_wav(file, RATE, 3, 10);
    w.channels = 2;
    e = (ot_error){ 0 };
    assert_int_equal(ot_sound_decode(file, n, &w, x, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "3 channels"));
    n = make_wav(file, RATE, 1, 0);
    assert_int_equal(try_bytes(file, n, x), OT_E_DATA);
    n = make_wav(file, RATE, 1, 10);
    file[20] = 0x55; /* MP3 in a WAV */
    assert_int_equal(try_bytes(file, n, x), OT_E_DATA);
    n = make_wav(file, RATE, 1, FRAMES);
    file[20] = 3; /* floats, of 32 bits; the last is NaN */
    put_number(file + 28, 4 * RATE, 4);
    put_number(file + 32, 4, 2);
    put_number(file + 34, 32, 2);
    memset(file + HEAD, 0, 4 * (FRAMES / 2));
    assert_int_equal(try_bytes(file, n, x), OT_OK);
    memset(file + HEAD + 4 * 150, 0xFF, 4);
    assert_int_equal(try_bytes(file, n, x), OT_E_DATA);
    assert_int_equal(try_bytes((const uint8_t *)"OggS and so on, of a length that is enough", 42, x), OT_E_DATA);
}

static ot_dataset *open_set(const char *name, ot_status expected, ot_error *e)
{
    char path[200];
    ot_dataset *d;
    const ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = { .rank = 2, .dim = { -1, 100 } } };
    const ot_data_options o = { .input = &in, .n_inputs = 1 };
    *e = (ot_error){ 0 };
    snprintf(path, sizeof path, "%s/%s", ot_test_folder, name);
    ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, e);
    if (s != expected) fail_msg("status %d: %s", (int)s, e->text);
    return d;
}

static void put_wav(const char *name, int rate, int frames)
{
    uint8_t file[ROOM];
    ot_folder_put(name, file, make_wav(file, rate, 1, frames));
}

static void sets(void **state)
{
    (void)state;
    ot_error e;
    put_wav("set/train/no/1.wav", RATE, 50);
    put_wav("set/train/yes/1.WAV", RATE, 70);
    put_wav("set/train/yes/.hidden.wav", 44100, 90);
    ot_folder_put("set/train/yes/bad.flac", "fLaC", 4);
    ot_folder_put("set/train/yes/note.txt", "fLaC", 4);
    ot_dataset *d = open_set("set", OT_OK, &e);
    const ot_array *x = ot_dataset_find(d, "");
    assert_int_equal(d->samples, 3);
    assert_int_equal(d->n_classes, 2);
    assert_string_equal(d->class_name[1], "yes");
    assert_true(ot_array_is_sound(x) && x->mapped && !x->picture);
    assert_int_equal(x->frames, 70);
    assert_int_equal(x->source->rate, RATE);
    assert_non_null(strstr(d->notes, "3 recordings"));
    ot_sound_want w = { .channels = 1, .length = 100, .place = -1, .rate = RATE };
    ot_image_room room = { 0 };
    float v[100];
    assert_int_equal(x->source->read_sound(x->source, 1, &w, &room, v, &e), OT_OK);
    assert_true(v[69] == value(69) && v[70] == 0);
    assert_int_equal(x->source->read_sound(x->source, 2, &w, &room, v, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "set/train/yes/bad.flac: "));
    ot_image_room_free(&room);
    ot_dataset_free(d);
    put_wav("set/train/yes/2.wav", 16000, 70);
    open_set("set", OT_E_DATA, &e);
    assert_true(strstr(e.text, "no/1.wav") && strstr(e.text, "yes/2.wav") && strstr(e.text, "8000") &&
                strstr(e.text, "16000"));
    ot_folder_put("broken/a/1.wav", "", 0);
    open_set("broken", OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "a/1.wav: the file is empty"));
}

static void tables(void **state)
{
    (void)state;
    static const char list[] = "file,label\na/1.wav,up\na/2.wav,down\na/1.wav,up\n";
    static const char out[] = "file,label\na/1.wav,up\n../1.wav,down\n";
    ot_error e;
    put_wav("a/1.wav", RATE, 50);
    put_wav("a/2.wav", RATE, 60);
    ot_folder_put("list.csv", list, sizeof list - 1);
    ot_folder_put("out.csv", out, sizeof out - 1);
    ot_dataset *d = open_set("list.csv", OT_OK, &e);
    const ot_array *x = ot_dataset_find(d, "");
    const int64_t *y = ot_dataset_find(d, "target")->t.data;
    assert_int_equal(d->samples, 3);
    assert_true(x && ot_array_is_sound(x) && x->frames == 60);
    assert_true(y[0] == 1 && y[1] == 0 && y[2] == 1);
    ot_dataset_free(d);
    open_set("out.csv", OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "leads out of the folder"));
    d = open_set("a/2.wav", OT_OK, &e);
    assert_int_equal(d->samples, 1);
    ot_dataset_free(d);
}

/* A file of silence says that it has more than can be read in time: it is refused by its header. */
static void long_silence(void **state)
{
    (void)state;
    size_t n;
    uint8_t *p = ot_fixture_load("tone.flac", &n);
    ot_sound x;
    ot_error e = { 0 };
    bool more = false;
    p[21] = (uint8_t)(p[21] & 0xF0); /* the number of samples: 4 bits, and 4 bytes */
    for (int i = 0; i < 2; i++) {
        memcpy(p + 22, i ? "\x10\x00\x00\x01" : "\x08\x00\x00\x00", 4);
        ot_status s = ot_sound_look(p, n, n, &x, &more, &e);
        assert_int_equal(s, i ? OT_E_DATA : OT_OK);
    }
    assert_non_null(strstr(e.text, "268435457 samples per channel"));
    assert_int_equal(ot_sound_look(p, n, 20 << 20, &x, &more, &e), OT_OK); /* 13 of each byte */
    free(p);
}

int ot_test_sounds(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_and_channels),
        cmocka_unit_test(reads_flac),
        cmocka_unit_test(long_silence),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(every_bit_turned),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test_setup_teardown(sets, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(tables, ot_folder_make, ot_folder_remove),
    };
    return ot_sound_missing() ? 0 : cmocka_run_group_tests_name("sounds", tests, NULL, NULL);
}
