/* map_tests.h - tests of Map beyond the rows of its operators; each prints its failures. */
#ifndef OT_MAP_TESTS_H
#define OT_MAP_TESTS_H

#include <stdbool.h>

struct ot_device;

bool test_fuse(struct ot_device *d); /* NULL: the CPU */
bool test_loops(void);
bool test_many(struct ot_device *d);
bool test_types(struct ot_device *d);

#endif
