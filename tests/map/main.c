/* main.c - runs the tests of Map: its loops, and the fuse pass; `test_map --cuda`: for a device. */
#include <stdio.h>
#include <string.h>

#include "ops/host.h"
#include "tests/map/map_tests.h"

static int on_device(void)
{
    ot_error          err = { 0 };
    ot_device        *d = NULL;
    const ot_backend *b = ot_backend_find(&err);
    if (!b || !b->count(&err)) {
        printf("skipped: no device: %s\n", err.text);
        return 77;
    }
    if (b->open(0, NULL, &d, &err) != OT_OK) {
        printf("%s\n", err.text);
        return 1;
    }
    bool ok = test_many(d);
    ok = test_types(d) && ok;
    ok = test_fuse(d) && ok;
    b->close(d);
    return !ok;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--cuda")) return on_device();
    bool ok = test_loops();
    return !(test_fuse(NULL) && ok);
}
