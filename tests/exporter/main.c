/* main.c - runs the tests of exporter/. */
#include "test.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "double")) return double_weights(argv[2], argv[3]);
    return ot_test_payloads() + ot_test_external() + ot_test_failures() + ot_test_new() + ot_test_faults();
}
