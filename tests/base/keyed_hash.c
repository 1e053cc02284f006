/* keyed_hash.c - compares SipHash with its published answers. */
#include "test.h"

#include "runtime/base/keyed_hash.h"

/* Of the reference implementation: key 00 01 .. 0f, message 00 01 .. n-1. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint64_t hash;
    } row[] = { { 0, UINT64_C(0x726fdb47dd0e0e31) },
                { 1, UINT64_C(0x74f839c593dc67fd) },
                { 8, UINT64_C(0x93f5f5799a932462) },
                { 15, UINT64_C(0xa129ca6149be45e5) },
                { 63, UINT64_C(0x958a324ceb064572) } };
    const ot_hash_key key = { { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) } };
    unsigned char message[64];
    for (int i = 0; i < 64; i++) message[i] = (unsigned char)i;
    for (int i = 0; i < OT_LEN(row); i++) assert_true(ot_keyed_hash(&key, message, row[i].n) == row[i].hash);
}

static void keys_differ(void **state)
{
    (void)state;
    ot_hash_key a = ot_hash_key_new(), b = ot_hash_key_new();
    assert_true(ot_keyed_hash(&a, "name", 4) == ot_keyed_hash(&a, (char[]){ 'n', 'a', 'm', 'e' }, 4));
    assert_true(ot_keyed_hash(&a, "name", 4) != ot_keyed_hash(&a, "name", 3));
    assert_true(ot_keyed_hash(&a, "name", 4) != ot_keyed_hash(&b, "name", 4));
}

int ot_test_keyed_hash(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(known_answers), cmocka_unit_test(keys_differ) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
