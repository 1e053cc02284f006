/* main.c - runs the tests of Map: its loops, and the fuse pass; `test_map --cuda`: for a device. */
#include <string.h>

#include "tests/map/map_tests.h"
#include "tests/ops/harness.h"

static int on_device(void)
{
    ot_device *d = NULL;
    int code = device_open(NULL, &d);
    if (code) return code;
    bool ok = test_many(d);
    ok = test_types(d) && ok;
    ok = test_fuse(d) && ok;
    d->backend->close(d);
    return !ok;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--cuda")) return on_device();
    bool ok = test_loops();
    return !(test_fuse(NULL) && ok);
}
