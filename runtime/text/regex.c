/* regex.c - the regular expressions of tokenizer.json that words.c does not know, compiled to a program whose ways through a text
 * are followed all at once: a match takes at most length times program size.
 *
 * Time      One that fails only at the end of the text, from each of its characters, takes the square of its length.  Each call
 *           may take what a usual one takes many times over; what it takes beyond that is of a reserve, and the expression
 *           gives up when that is spent (ot_regex_tired).
 * Source    Cox: Regular Expression Matching: the Virtual Machine Approach (2009).
 * Contract  Of the ways that match the one is taken that a backtracking engine finds first: alternatives from left to right,
 *           quantifiers as many as possible.  Alternatives, groups, quantifiers, classes, \p{..}, (?i:..), and (?=c) and (?!c)
 *           of one character or class; all else is refused with its place. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

enum { MOST_CODE = 1000, MOST_SETS = 100, MOST_ITEMS = 400, DEEPEST = 12, MOST_TIMES = 255, EACH = 2000 };
static const int64_t reserve = 1 << 26; /* steps: half a second */

typedef enum opcode { ONE, FORK, GO, AHEAD, NOT_AHEAD, FOUND } opcode;

typedef struct instruction {
    opcode op;
    int x, y; /* of ONE and AHEAD the set; of FORK both ways, the better first; of GO x */
} instruction;

typedef enum item_kind { RANGE, CATEGORIES, BLANK, WORD } item_kind;

typedef struct set_item {
    item_kind kind;
    bool not;
    uint32_t low, high; /* low: the bits of categories */
} set_item;

typedef struct char_set {
    int first, n; /* items */
    bool not, fold;
    bool ascii[128];
} char_set;

struct ot_regex {
    instruction code[MOST_CODE];
    char_set set[MOST_SETS];
    set_item item[MOST_ITEMS];
    int n, n_sets, n_items;
    int list[2][MOST_CODE]; /* where the ways are, the best first */
    uint64_t mark[MOST_CODE], now;
    bool begins[128], begins_beyond; /* with which characters a match can begin; others than ASCII */
    const char *text, *at;           /* what is compiled */
    bool fold;
    const char *wrong; /* NULL: nothing */
    int64_t left;      /* of the reserve; < 0: it has given up */
};

static bool wrong(ot_regex *r, const char *what)
{
    if (!r->wrong) r->wrong = what;
    return false;
}

/* ---- sets of characters --------------------------------------------------------------------------- */

static bool item_matches(const set_item *v, uint32_t c)
{
    bool is = v->kind == RANGE        ? c >= v->low && c <= v->high
              : v->kind == CATEGORIES ? (v->low >> ot_category(c) & 1) != 0
              : v->kind == BLANK      ? ot_is_blank(c)
                                      : ot_is_word(c);
    return is != v->not;
}

static bool among(const ot_regex *r, const char_set *s, uint32_t c)
{
    for (int i = 0; i < s->n; i++)
        if (item_matches(&r->item[s->first + i], c)) return true;
    return false;
}

static bool test(const ot_regex *r, const char_set *s, uint32_t c)
{
    bool is = among(r, s, c);
    if (s->fold && !is) {
        uint32_t low = ot_to_lower(c), high = ot_to_upper(c);
        is = among(r, s, low) || among(r, s, high) || among(r, s, ot_to_lower(high));
    }
    return is != s->not;
}

static bool in_set(const ot_regex *r, int set, uint32_t c)
{
    return c < 128 ? r->set[set].ascii[c] : test(r, &r->set[set], c);
}

static bool add_item(ot_regex *r, item_kind kind, bool not, uint32_t low, uint32_t high)
{
    if (r->n_items == MOST_ITEMS) return wrong(r, "is too long");
    r->item[r->n_items++] = (set_item){ kind, not, low, high };
    r->set[r->n_sets].n++;
    return true;
}

/* After it add_item adds to the new set, until close_set. */
static bool open_set(ot_regex *r)
{
    if (r->n_sets == MOST_SETS) return wrong(r, "is too long");
    r->set[r->n_sets] = (char_set){ .first = r->n_items, .fold = r->fold };
    return true;
}

static int close_set(ot_regex *r)
{
    char_set *s = &r->set[r->n_sets];
    for (uint32_t c = 0; c < 128; c++) s->ascii[c] = test(r, s, c);
    return r->n_sets++;
}

/* ---- the program ------------------------------------------------------------------------------------- */

static bool emit(ot_regex *r, opcode op, int x, int y)
{
    if (r->n == MOST_CODE - 1) return wrong(r, "is too long");
    r->code[r->n++] = (instruction){ op, x, y };
    return true;
}

static bool jumps(opcode op) { return op == FORK || op == GO; }

static void move_targets(instruction *c, int from, int by)
{
    if (!jumps(c->op)) return;
    if (c->x >= from) c->x += by;
    if (c->op == FORK && c->y >= from) c->y += by;
}

/* A FORK in front of what is compiled from `from` on. */
static bool insert_fork(ot_regex *r, int from, int x, int y)
{
    if (!emit(r, FORK, 0, 0)) return false;
    memmove(&r->code[from + 1], &r->code[from], (size_t)(r->n - 1 - from) * sizeof *r->code);
    for (int i = from + 1; i < r->n; i++) move_targets(&r->code[i], from, 1);
    r->code[from] = (instruction){ FORK, x, y };
    return true;
}

static bool copy_part(ot_regex *r, int from, int n)
{
    int by = r->n - from;
    for (int i = 0; i < n; i++) {
        instruction c = r->code[from + i];
        move_targets(&c, from, by);
        if (!emit(r, c.op, c.x, c.y)) return false;
    }
    return true;
}

/* ---- the expression ------------------------------------------------------------------------------------ */

static const char category_names[][3] = { "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                          "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                          "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co" };

/* The rest of \p{..}. */
static bool read_category(ot_regex *r, bool not)
{
    const char *p = r->at, *end = *p == '{' ? strchr(p, '}') : NULL;
    uint32_t bits = 0;
    size_t n = end ? (size_t)(end - p) - 1 : 0;
    if (n && p[1] == '^') not = !not, p++, n--;
    for (uint32_t i = 0; (n == 1 || n == 2) && i < OT_LEN(category_names); i++)
        if (!memcmp(category_names[i], p + 1, n)) bits |= 1u << i;
    if (!bits) return wrong(r, "names a property of characters that is not supported");
    r->at = end + 1;
    return add_item(r, CATEGORIES, not, bits, 0);
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* \uHHHH \xHH \x{H..} behind the letter. */
static bool read_hex(ot_regex *r, char letter, uint32_t *c)
{
    bool braces = letter == 'x' && *r->at == '{';
    int most = braces ? 6 : letter == 'u' ? 4 : 2, n = 0;
    r->at += braces;
    for (*c = 0; n < most && hex(*r->at) >= 0; n++) *c = *c << 4 | (uint32_t)hex(*r->at++);
    if (!n || (!braces && n < most) || (braces && *r->at++ != '}') || *c > 0x10FFFF)
        return wrong(r, "has a malformed number of a character");
    return true;
}

/* Behind a backslash: a class is added to the open set; a single character is *c.  *one: which. */
static bool read_escape(ot_regex *r, bool *one, uint32_t *c)
{
    static const char letters[] = "nrtfvae", values[] = "\n\r\t\f\v\a\033";
    enum { DECIMAL = 1 << 9 };
    char e = *r->at;
    const char *plain = e ? strchr(letters, e) : NULL;
    *one = false;
    if (!e) return wrong(r, "ends with a backslash");
    r->at++;
    switch (e) {
    case 's':
    case 'S': return add_item(r, BLANK, e == 'S', 0, 0);
    case 'w':
    case 'W': return add_item(r, WORD, e == 'W', 0, 0);
    case 'd':
    case 'D': return add_item(r, CATEGORIES, e == 'D', DECIMAL, 0);
    case 'p':
    case 'P': return read_category(r, e == 'P');
    default: break;
    }
    *one = true;
    if (e == 'u' || e == 'x') return read_hex(r, e, c);
    *c = plain ? (uint32_t)(unsigned char)values[plain - letters] : (uint32_t)(unsigned char)e;
    if (plain) return true;
    if (hex(e) >= 0 || (e >= 'A' && e <= 'Z') || (e >= 'a' && e <= 'z') || (unsigned char)e >= 128)
        return wrong(r, "has an escape that is not supported");
    return true;
}

static bool read_character(ot_regex *r, uint32_t *c)
{
    int k = ot_utf8(r->at, strlen(r->at), c);
    r->at += k;
    return k || wrong(r, "is not UTF-8");
}

/* A character of a class, or a class in it; *one: a character. */
static bool read_member(ot_regex *r, bool *one, uint32_t *c)
{
    *one = true;
    if (*r->at == '[' || (*r->at == '&' && r->at[1] == '&')) return wrong(r, "has a class in a class");
    if (*r->at != '\\') return read_character(r, c);
    r->at++;
    return read_escape(r, one, c);
}

/* Behind [ . */
static bool read_class(ot_regex *r)
{
    bool not = *r->at == '^', one, other;
    uint32_t low, high;
    r->at += not;
    if (*r->at == ']') return wrong(r, "has an empty class");
    while (*r->at != ']') {
        if (!*r->at) return wrong(r, "has a class without an end");
        if (!read_member(r, &one, &low)) return false;
        high = low;
        if (one && *r->at == '-' && r->at[1] != ']' && r->at[1]) {
            r->at++;
            if (!read_member(r, &other, &high)) return false;
            if (!other || high < low) return wrong(r, "has a malformed range");
        }
        if (one && !add_item(r, RANGE, false, low, high)) return false;
    }
    r->at++;
    r->set[r->n_sets].not = not;
    return true;
}

/* One character or class; its set. */
static bool read_set(ot_regex *r, int *set)
{
    uint32_t c = 0;
    bool one = true, good;
    if (!open_set(r)) return false;
    if (*r->at && strchr("*+?{^$)|", *r->at)) return wrong(r, "has a sign where a character is expected");
    char first = *r->at;
    if (first == '[' || first == '.' || first == '\\') r->at++;
    if (first == '[') one = false, good = read_class(r);
    else if (first == '.') one = false, good = add_item(r, RANGE, true, '\n', '\n');
    else if (first == '\\') good = read_escape(r, &one, &c);
    else good = read_character(r, &c);
    if (!good || (one && !add_item(r, RANGE, false, c, c))) return false;
    *set = close_set(r);
    return true;
}

static bool read_choice(ot_regex *r, int depth);

static bool read_group(ot_regex *r, int depth)
{
    bool fold = r->fold;
    int set;
    if (depth == DEEPEST) return wrong(r, "has too many groups in each other");
    r->at++;
    if (!strncmp(r->at, "?!", 2) || !strncmp(r->at, "?=", 2)) {
        opcode op = r->at[1] == '!' ? NOT_AHEAD : AHEAD;
        r->at += 2;
        if (!read_set(r, &set)) return false;
        if (*r->at++ != ')') return wrong(r, "looks ahead at more than one character");
        return emit(r, op, set, 0);
    }
    if (!strncmp(r->at, "?:", 2)) r->at += 2;
    else if (!strncmp(r->at, "?i:", 3)) r->at += 3, r->fold = true;
    else if (*r->at == '?') return wrong(r, "has a group of a kind that is not supported");
    if (!read_choice(r, depth + 1)) return false;
    r->fold = fold;
    return *r->at++ == ')' || wrong(r, "has a group without an end");
}

/* {a} {a,} {,b} {a,b}; most -1: any number. */
static bool read_times(ot_regex *r, int *least, int *most)
{
    char *end;
    const char *p = r->at + 1;
    bool digits = *p >= '0' && *p <= '9';
    long a = digits ? strtol(p, &end, 10) : 0, b = a;
    if (digits) p = end;
    if (*p == ',') {
        b = -1;
        p++;
        if (*p >= '0' && *p <= '9') b = strtol(p, &end, 10), p = end;
        else if (!digits) return wrong(r, "has a malformed quantifier");
    } else if (!digits) {
        return wrong(r, "has a malformed quantifier");
    }
    if (*p != '}' || a > MOST_TIMES || b > MOST_TIMES || (b >= 0 && b < a) || !b)
        return wrong(r, "has a malformed quantifier");
    r->at = p + 1;
    *least = (int)a;
    *most = (int)b;
    return true;
}

/* The part from `from` on as often as that. */
static bool repeat(ot_regex *r, int from, int least, int most)
{
    int n = r->n - from, last = from;
    for (int i = 1; i < least; i++) {
        last = r->n;
        if (!copy_part(r, from, n)) return false;
    }
    if (most < 0 && least) return emit(r, FORK, last, r->n + 1);
    if (most < 0) return insert_fork(r, from, from + 1, r->n + 2) && emit(r, GO, from, 0);
    int optional = most - (least ? least : 1), end = r->n + optional * (n + 1) + !least;
    for (int i = 0; i < optional; i++)
        if (!emit(r, FORK, r->n + 1, end - !least) || !copy_part(r, from, n)) return false;
    return least || insert_fork(r, from, from + 1, end);
}

static bool read_piece(ot_regex *r, int depth)
{
    int from = r->n, least = 1, most = 1, set;
    if (*r->at == '(') {
        if (!read_group(r, depth)) return false;
    } else if (!read_set(r, &set) || !emit(r, ONE, set, 0)) {
        return false;
    }
    char q = *r->at;
    if (!q || !strchr("?*+{", q)) return true;
    if (q == '{') {
        if (!read_times(r, &least, &most)) return false;
    } else {
        r->at++;
        least = q == '+';
        most = q == '?' ? 1 : -1;
    }
    if (*r->at && strchr("?*+{", *r->at)) return wrong(r, "has a quantifier after a quantifier");
    return repeat(r, from, least, most);
}

/* a|b|c up to the end or ')'. */
static bool read_choice(ot_regex *r, int depth)
{
    int from = r->n, open = -1; /* the GOs to the end, each with the place of the one before it */
    for (;;) {
        while (*r->at && *r->at != '|' && *r->at != ')')
            if (!read_piece(r, depth)) return false;
        if (*r->at != '|') break;
        r->at++;
        if (!insert_fork(r, from, from + 1, r->n + 2)) return false;
        if (!emit(r, GO, open, 0)) return false;
        open = r->n - 1;
        from = r->n;
    }
    while (open >= 0) {
        int before = r->code[open].x;
        r->code[open].x = r->n;
        open = before;
    }
    return true;
}

/* ---- matching -------------------------------------------------------------------------------------------- */

/* Adds the ways from `pc` on; depth is bounded by the program's length. */
static void add_way(ot_regex *r, int *list, int *n, int pc, const char *p, const char *end)
{
    const instruction *c = &r->code[pc];
    uint32_t next;
    if (r->mark[pc] == r->now) return;
    r->mark[pc] = r->now;
    switch (c->op) {
    case FORK:
        add_way(r, list, n, c->x, p, end);
        add_way(r, list, n, c->y, p, end);
        break;
    case GO: add_way(r, list, n, c->x, p, end); break;
    case AHEAD:
    case NOT_AHEAD:
        if ((p < end && ot_utf8(p, (size_t)(end - p), &next) && in_set(r, c->x, next)) == (c->op == AHEAD))
            add_way(r, list, n, pc + 1, p, end);
        break;
    default: list[(*n)++] = pc; break;
    }
}

const char *ot_regex_match(ot_regex *r, const char *p, const char *end)
{
    const char *best = NULL;
    int *list = r->list[0], *other = r->list[1], n = 0;
    int64_t steps = -EACH;
    if (r->left < 0) return NULL;
    if (p < end && ((unsigned char)*p < 128 ? !r->begins[(unsigned char)*p] : !r->begins_beyond)) return NULL;
    r->now++;
    add_way(r, list, &n, 0, p, end);
    while (n) {
        uint32_t c = 0;
        int k = p < end ? ot_utf8(p, (size_t)(end - p), &c) : 0, m = 0;
        r->now++;
        for (int i = 0; i < n; i++) {
            const instruction *at = &r->code[list[i]];
            if (at->op == FOUND) { /* the ways behind it are worse */
                best = p;
                steps = -EACH;
                break;
            }
            if (k && in_set(r, at->x, c)) add_way(r, other, &m, list[i] + 1, p + k, end);
        }
        p += k;
        steps += n;
        if (steps > r->left) break;
        n = m;
        int *swap = list;
        list = other;
        other = swap;
    }
    r->left = steps > r->left ? -1 : r->left - steps < reserve ? r->left - steps : reserve;
    return r->left < 0 ? NULL : best;
}

bool ot_regex_tired(const ot_regex *r) { return r->left < 0; }

/* Which characters a match can begin with: all that a first step takes, whatever is looked ahead at. */
static void find_beginnings(ot_regex *r, int pc)
{
    const instruction *c = &r->code[pc];
    if (r->mark[pc] == r->now) return;
    r->mark[pc] = r->now;
    if (c->op == FORK || c->op == GO) find_beginnings(r, c->x);
    if (c->op == FORK) find_beginnings(r, c->y);
    if (c->op == AHEAD || c->op == NOT_AHEAD) find_beginnings(r, pc + 1);
    for (int i = 0; i < 128 && c->op == ONE; i++) r->begins[i] |= r->set[c->x].ascii[i];
    r->begins_beyond = true;
}

ot_status ot_regex_new(const char *text, const char *name, ot_arena *a, ot_regex **out, ot_error *err)
{
    ot_regex *r = ot_arena_struct(a, sizeof *r);
    if (!r) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", name);
    *out = r;
    r->left = reserve;
    r->text = r->at = text;
    bool good = read_choice(r, 0);
    if (good && *r->at) wrong(r, "has a ) without a (");
    r->code[r->n] = (instruction){ .op = FOUND };
    r->now = 1;
    if (!r->wrong) find_beginnings(r, 0);
    if (!r->wrong && ot_regex_match(r, text, text)) wrong(r, "matches the empty text");
    return !r->wrong ? OT_OK
                     : ot_fail(err, OT_E_DATA, "%s: unsupported regular expression: it %s (byte %d): %.300s", name,
                               r->wrong, (int)(r->at - text), text);
}
