/* main.c - runs the tests of Map: its loops, and the fuse pass. */
#include "tests/map/map_tests.h"

int main(void)
{
    bool ok = test_loops();
    return !(test_fuse() && ok);
}
