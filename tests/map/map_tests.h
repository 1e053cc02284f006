/* map_tests.h - tests of Map beyond the rows of its operators; each prints what fails. */
#ifndef OT_MAP_TESTS_H
#define OT_MAP_TESTS_H

#include <stdbool.h>

bool test_fuse(void);
bool test_loops(void);

#endif
