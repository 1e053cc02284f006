/* text.c - rows of operators on sequences of words. */
#include "tests/ops/case.h"

#define POOL "ngram_counts=[0,4] ngram_indexes=[0,1,2,3,4,5,6] pool_int64s=[2,3,5,4,5,6,7,8,6,7] min_gram_length=1 max_gram_length=2 "
#define PAIRS "ngram_counts=[0,4] ngram_indexes=[0,1,2,3,4,5,6] pool_int64s=[2,3,5,4,5,6,7,8,6,7] min_gram_length=2 max_gram_length=2 "
#define WORDS "x contains no floats"

extern const ot_case ot_cases_TfIdfVectorizer[];
const ot_case ot_cases_TfIdfVectorizer[] = {
    { .name = "counts", .attrs = POOL "max_skip_count=0 mode=TF", .in = "i64[12]~1,1,3,3,3,7,8,6,7,5,6,8", .out = "f32[7]", .y = "0,3,1,0,1,1,1", .no_grad = WORDS },
    { .name = "skips", .attrs = POOL "max_skip_count=5 mode=TF", .in = "i32[2,6]~1,1,3,3,3,7,8,6,7,5,6,8", .out = "f32[2,7]", .y = "0,3,0,0,0,0,0,0,0,1,0,1,1,1", .no_grad = WORDS },
    { .name = "pairs", .attrs = PAIRS "max_skip_count=0 mode=TF", .in = "i64[12]~1,1,3,3,3,7,8,6,7,5,6,8", .out = "f32[7]", .y = "0,0,0,0,1,1,1", .no_grad = WORDS },
    { .name = "idf", .attrs = POOL "max_skip_count=0 mode=IDF weights=[2,3,4,5,6,7,8]", .in = "i64[12]~1,1,3,3,3,7,8,6,7,5,6,8", .out = "f32[7]", .y = "0,3,4,0,6,7,8", .no_grad = WORDS },
    { .name = "tfidf", .attrs = POOL "max_skip_count=0 mode=TFIDF weights=[2,3,4,5,6,7,8]", .in = "i64[12]~1,1,3,3,3,7,8,6,7,5,6,8", .out = "f32[7]", .y = "0,9,4,0,6,7,8", .no_grad = WORDS },
    { .name = "idf_plain", .attrs = POOL "max_skip_count=0 mode=IDF", .in = "i64[12]~1,1,3,3,3,7,8,6,7,5,6,8", .out = "f32[7]", .y = "0,1,1,0,1,1,1", .no_grad = WORDS },
    { .name = "one_column", .attrs = "ngram_counts=[0] ngram_indexes=[1,1,0] pool_int64s=[2,3,4] min_gram_length=1 max_gram_length=1 max_skip_count=0 mode=TF",
      .in = "i64[5]~2,3,2,4,9", .out = "f32[2]", .y = "1,3", .no_grad = WORDS },
    { .name = "short", .attrs = PAIRS "max_skip_count=0 mode=TF", .in = "i64[1]~5", .out = "f32[7]", .y = "0,0,0,0,0,0,0", .no_grad = WORDS },
    { .name = "empty", .attrs = POOL "max_skip_count=1 mode=TF", .in = "i64[2,0]", .out = "f32[2,7]", .no_grad = WORDS },
    { .name = "weights", .attrs = POOL "max_skip_count=0 mode=TF weights=[1,2]", .in = "i64[5]", .out = "f32[7]", .fail = OT_E_MODEL },
    { .name = "counts_descend", .attrs = "ngram_counts=[3,1] ngram_indexes=[0] pool_int64s=[1,2,3,4] min_gram_length=1 max_gram_length=1 max_skip_count=0 mode=TF",
      .in = "i64[5]", .out = "f32[1]", .fail = OT_E_MODEL },
    { .name = "strings", .attrs = POOL "max_skip_count=0 mode=TF", .in = "str[5]", .out = "f32[7]", .fail = OT_E_MODEL },
    { 0 }
};

/* The harness has empty strings only; tests/interop/test_strings.py tests others. */
#define NONE "strings have no gradient"

extern const ot_case ot_cases_StringConcat[];
const ot_case ot_cases_StringConcat[] = {
    { .name = "broadcast", .in = "str[2,1] str[3]", .out = "str[2,3]", .no_grad = NONE },
    { .name = "sizes", .in = "str[2] str[3]", .fail = OT_E_MODEL },
    { .name = "numbers", .in = "f32[2] str[2]", .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_StringSplit[];
const ot_case ot_cases_StringSplit[] = {
    { .name = "spaces", .in = "str[2]", .out = "str[2,0] i64[2]", .no_grad = NONE },
    { .name = "delimiter", .attrs = "delimiter=x", .in = "str[2]", .out = "str[2,1] i64[2]", .no_grad = NONE },
    { .name = "nothing", .in = "str[0]", .out = "str[0,0] i64[0]", .no_grad = NONE },
    { 0 }
};

extern const ot_case ot_cases_StringNormalizer[];
const ot_case ot_cases_StringNormalizer[] = {
    { .name = "plain", .in = "str[3]", .out = "str[3]", .no_grad = NONE },
    { .name = "row", .attrs = "case_change_action=LOWER", .in = "str[1,3]", .out = "str[1,3]", .no_grad = NONE },
    { .name = "rows", .in = "str[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_RegexFullMatch[];
const ot_case ot_cases_RegexFullMatch[] = {
    { .name = "any", .attrs = "pattern=a*", .in = "str[2]", .out = "bool[2]", .y = "1,1", .no_grad = NONE },
    { .name = "one", .attrs = "pattern=.", .in = "str[2]", .out = "bool[2]", .y = "0,0", .no_grad = NONE },
    { .name = "open", .attrs = "pattern=(a", .in = "str[2]", .fail = OT_E_MODEL },
    { .name = "look_ahead", .attrs = "pattern=(?=a)", .in = "str[2]", .fail = OT_E_MODEL },
    { 0 }
};
