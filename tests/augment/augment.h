/* augment.h - what the files of this test share. */
#ifndef TEST_AUGMENT_H
#define TEST_AUGMENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/picture/image.h"

#define FIXTURES OT_SOURCE_ROOT "/tests/augment/fixtures/"

/* malloc'ed noise, as make_fixtures.py makes it. */
static inline ot_image noise(int64_t height, int64_t width, int channels)
{
    ot_image m = { malloc((size_t)(height * width * channels)), height, width, channels, width * channels };
    uint32_t s = 1;
    for (int64_t i = 0; i < height * width * channels; i++) m.data[i] = (uint8_t)((s = s * 1664525 + 1013904223) >> 24);
    return m;
}

int test_resize(void);
int test_changes(void);
int test_lists(void);
int test_tokens(void);

#endif
