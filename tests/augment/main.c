/* main.c - pictures in memory: resizing. */
#include "tests/augment/augment.h"

int main(void) { return test_resize(); }
