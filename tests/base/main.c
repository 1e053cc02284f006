/* main.c - runs the tests of runtime/base. */
#include "test.h"

int main(void)
{
    return ot_test_errors() + ot_test_arena() + ot_test_shape() + ot_test_dtype() + ot_test_io() + ot_test_random() +
           ot_test_text() + ot_test_memory() + ot_test_keyed_hash();
}
