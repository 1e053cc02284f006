/* main.c - images in memory: resizing and augmentation. */
#include "tests/augment/augment.h"

int main(void) { return test_resize() | test_changes() | test_lists() | test_tokens(); }
