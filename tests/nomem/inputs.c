/* inputs.c - the files that the ways read, made in the current folder. */
#include "nomem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/io.h"
#include "runtime/data/data.h"

ot_status put_file(const char *path, const void *p, size_t n, ot_error *err)
{
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(p, 1, n, f) == n;
    return f && !fclose(f) && good ? OT_OK : ot_fail(err, OT_E_IO, "%s: cannot be written", path);
}

ot_status write_pictures(const char *path, int n, bool targets, ot_error *err)
{
    static float x[SAMPLES * PIXELS];
    static int64_t y[SAMPLES];
    for (int i = 0; i < n * PIXELS; i++) x[i] = (float)((int64_t)i * i * 37 % 101) / 101;
    for (int i = 0; i < n; i++) y[i] = i % 10;
    ot_tensor t[2] = { { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { n, 1, 28, 28 }, .data = x },
                       { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { n }, .data = y } };
    return ot_npz_write(path, t, targets ? 2 : 1, err);
}

ot_status pictures(ot_error *err)
{
    OT_TRY(write_pictures("train.npz", SAMPLES, true, err));
    OT_TRY(write_pictures("val.npz", SAMPLES - 1, true, err));
    return write_pictures("inputs.npz", 2, false, err);
}

/* x: pictures in bytes, of this name and these dimensions; y: their targets.  Both are written over by the next call. */
static void bytes_of(const char *name, const int64_t dim[4], ot_tensor *x, ot_tensor *y)
{
    static uint8_t pixel[SAMPLES * PIXELS];
    static int64_t class[SAMPLES];
    for (int i = 0; i < SAMPLES * PIXELS; i++) pixel[i] = (uint8_t)((int64_t)i * i * 37 % 251);
    *x = (ot_tensor){ .name = name, .dtype = OT_U8, .rank = 4, .data = pixel };
    memcpy(x->dim, dim, 4 * sizeof *dim);
    *y = (ot_tensor){ .name = "target", .dtype = OT_I64, .rank = 1, .dim = { SAMPLES }, .data = class };
}

ot_status byte_pictures(ot_error *err)
{
    ot_tensor t[2];
    bytes_of("input", (int64_t[]){ SAMPLES, 1, 28, 28 }, &t[0], &t[1]);
    return ot_npz_write("train.npz", t, 2, err);
}

/* Two files, the input under another name and with channels last. */
ot_status part_files(ot_error *err)
{
    ot_tensor t[2];
    bytes_of("x", (int64_t[]){ SAMPLES, 28, 28, 1 }, &t[0], &t[1]);
    OT_TRY(ot_npz_write("x.npz", t, 1, err));
    return ot_npz_write("y.npz", t + 1, 1, err);
}

/* A table that names images; of the same files, given by name, each sample is one. */
ot_status image_list(ot_error *err)
{
    static const char list[] = "file,label\na.pgm,x\nb.pgm,y\na.pgm,x\n./b.pgm,y\n";
    static char image[PIXELS + 16];
    int head = snprintf(image, sizeof image, "P5 28 28 255\n");
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < PIXELS; i++) image[head + i] = (char)((i * i + k) % 100);
        OT_TRY(put_file(k ? "b.pgm" : "a.pgm", image, (size_t)head + PIXELS, err));
    }
    return put_file("list.csv", list, strlen(list), err);
}

/* Masks in a table and in folders; they are opened, not decoded. */
ot_status masks(ot_error *err)
{
    static const char list[] = "image,mask\na.pgm,b.pgm\nb.pgm,a.pgm\n";
    static const char *const name[] = { "set/images/1.pgm", "set/images/2.pgm", "set/masks/1.pgm",
                                        "set/masks/2_mask.pgm" };
    OT_TRY(image_list(err));
    if (mkdir("set", 0700) || mkdir("set/images", 0700) || mkdir("set/masks", 0700))
        return ot_fail(err, OT_E_IO, "set: cannot be made");
    for (int i = 0; i < OT_LEN(name); i++) OT_TRY(put_file(name[i], "P5 1 1 255\n0", 12, err));
    return put_file("masks.csv", list, strlen(list), err);
}

/* A WAV and a FLAC file in class folders. */
ot_status recordings(ot_error *err)
{
    static const char wav[] = "RIFF\x2C\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1F\0\0\x80\x3E\0\0\2\0\x10\0"
                              "data\x08\0\0\0\0\1\0\2\0\3\0\4";
    void *flac;
    size_t n;
    if (mkdir("spoken", 0700) || mkdir("spoken/a", 0700) || mkdir("spoken/b", 0700))
        return ot_fail(err, OT_E_IO, "spoken: cannot be made");
    OT_TRY(ot_read_file(FIXTURES "tone.flac", 1 << 20, &flac, &n, err));
    ot_status s = put_file("spoken/b/1.flac", flac, n, err);
    free(flac);
    OT_TRY(s);
    return put_file("spoken/a/1.wav", wav, sizeof wav - 1, err);
}

ot_status tables(ot_error *err)
{
    const char *csv = "a,b,kind\n1,2,red\n3,4,green\n5,6,red\n", *conf = "# of a run\nlr = 0.1\nfreeze = conv*\n";
    OT_TRY(put_file("table.csv", csv, strlen(csv), err));
    const char *mixed = "age,job,since,y\n20,nurse,2024-02-29,p\nNA,clerk,2024-03-01,q\n60,,2024-03-03,p\n";
    OT_TRY(put_file("mixed.csv", mixed, strlen(mixed), err));
    const char *lines = "{\"text\":\"ab\",\"n\":1.5,\"label\":\"p\"}\n{\"label\":\"q\",\"n\":2,\"text\":\"c\"}\n";
    OT_TRY(put_file("texts.jsonl", lines, strlen(lines), err));
    const char *tags = "{\"tokens\":[\"ab\",\"c\"],\"tags\":[\"p\",\"o\"]}\n{\"tokens\":[\"d\"],\"tags\":[\"o\"]}\n";
    OT_TRY(put_file("tags.jsonl", tags, strlen(tags), err));
    const char *conll = "-DOCSTART- O\n\nab X p\nc X o\n\nd X o\n";
    OT_TRY(put_file("tags.conll", conll, strlen(conll), err));
    OT_TRY(put_file("run.conf", conf, strlen(conf), err));
    return pictures(err);
}

/* Tokenizers, in folders.  No string of their JSON is longer than what jansson reads without more memory: where that fails in the middle
 * of a string, jansson 2.14 stops the process. */
ot_status vocabularies(ot_error *err)
{
    static const char *const files[][2] = {
        { "word/tokenizer.json",
          "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"ab\":4,\"b\":5,\"u\":6},\"unk_token\":\"u\"},"
          "\"pre_tokenizer\":{\"type\":\"Whitespace\"}}" },
        { "bert/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\nB\nb\n" },
        { "bert/tokenizer_config.json", "{\"do_lower_case\": true}" },
        { "gpt/vocab.json", "{\"<s>\":0,\"</s>\":1,\"<mask>\":2,\"a\":3,\"b\":4,\"ab\":5,\"\xC4\xA0\":6,\"\xC4\xA0"
                            "b\":7}" },
        { "gpt/merges.txt", "#version: 0.2\na b\n\xC4\xA0 b\n" },
    };
    if (mkdir("word", 0700) || mkdir("bert", 0700) || mkdir("gpt", 0700))
        return ot_fail(err, OT_E_IO, "a folder cannot be made");
    for (int i = 0; i < OT_LEN(files); i++) OT_TRY(put_file(files[i][0], files[i][1], strlen(files[i][1]), err));
    return OT_OK;
}
