/* main.c - runs the tests of exporter/. */
#include "test.h"

int main(void) { return ot_test_payloads() + ot_test_external() + ot_test_failures() + ot_test_new(); }
