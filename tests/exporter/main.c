/* main.c - runs the tests of exporter/. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "scale")) return scale_weights((float)atof(argv[2]), argv[3], argv[4]);
    return ot_test_payloads() + ot_test_external() + ot_test_failures() + ot_test_new() + ot_test_faults();
}
